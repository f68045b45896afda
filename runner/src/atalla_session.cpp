// Atalla: a blob (.atalla) on the C kernels. The only file that knows its C ABI.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "atalla.h"
#include "isa.h"
#include "mapped_file.h"
#include "outcome.h"
#include "session.h"

namespace cross_backend {
namespace {

constexpr std::array<std::pair<const char*, std::uint32_t>, 10> kTypes{{
    {"bfloat16", AT_BF16},
    {"bool", AT_BOOL},
    {"float16", AT_F16},
    {"float32", AT_F32},
    {"float64", AT_F64},
    {"int16", AT_I16},
    {"int32", AT_I32},
    {"int64", AT_I64},
    {"int8", AT_I8},
    {"uint8", AT_U8},
}};

constexpr std::align_val_t kLine{64};  // of the cache

struct Free {
  void operator()(atalla_blob* blob) const { atalla_close(blob); }
  void operator()(atalla_context* context) const { atalla_context_free(context); }
  void operator()(void* memory) const { ::operator delete(memory, kLine); }
};

using Blob = std::unique_ptr<atalla_blob, Free>;
using Context = std::unique_ptr<atalla_context, Free>;
using Memory = std::unique_ptr<void, Free>;

// Structures of the ABI begin with their size.
template <typename T>
T sized() {
  T made{};
  made.struct_size = sizeof made;
  return made;
}

void check(int status, const atalla_error& error, Outcome otherwise, const char* doing) {
  if (status == ATALLA_OK) return;
  const std::string why = error.text[0] ? std::string(error.text) : "status " + std::to_string(status);
  throw Failure(otherwise, std::string("Atalla cannot ") + doing + ": " + why);
}

// A tensor as the blob wants it laid out, and its memory; an output that is none has no memory.
struct Place {
  Tensor form;  // without data
  std::vector<std::int64_t> strides;
  Memory memory;
};

Tensor form_of(const atalla_tensor& wanted) {
  Tensor form{"", {wanted.shape, wanted.shape + wanted.rank}, {}};
  for (const auto& [name, type] : kTypes) {
    if (type == wanted.dtype) form.dtype = name;
  }
  return form;
}

Place place_for(const atalla_tensor& wanted) {
  Place place;
  if (wanted.dtype == 0) return place;
  place.form = form_of(wanted);
  place.strides.assign(wanted.strides, wanted.strides + wanted.rank);
  std::size_t reach = 1;
  if (element_count(place.form.shape) > 0) {
    for (std::uint32_t i = 0; i < wanted.rank; ++i) {
      reach += static_cast<std::size_t>((wanted.shape[i] - 1) * wanted.strides[i]);
    }
  }
  place.memory.reset(::operator new(reach * item_size(place.form.dtype), kLine));
  return place;
}

class AtallaSession final : public Session {
 public:
  AtallaSession(const std::string& path, const Opening& how) : file_(path), how_(how) {
    auto error = sized<atalla_error>();
    atalla_blob* blob = nullptr;
    check(atalla_open(file_.data(), file_.size(), &blob, &error), error, Outcome::kLoadFail, "load the blob");
    blob_.reset(blob);
    atalla_describe(blob, &info_);
    if (info_.calls > 0) {
      throw Unavailable(
          std::to_string(info_.calls) + " operator(s) of it run in PyTorch, which this program does not hold",
          "run it with cross-backend run, or bundle another backend: executorch.atalla leaves them to "
          "ExecuTorch");
    }
    prepare(blob);
  }

  std::vector<Tensor> takes() const override {
    std::vector<Tensor> forms;
    for (std::uint32_t i = 0; i < info_.inputs; ++i) {
      auto wanted = sized<atalla_tensor>();
      atalla_describe_input(blob_.get(), i, &wanted);
      forms.push_back(form_of(wanted));
    }
    return forms;
  }

  void bind(const std::vector<Tensor>& inputs) override {
    check_count(info_.inputs, inputs.size());
    fit(inputs);
    inputs_.clear();
    for (std::uint32_t i = 0; i < info_.inputs; ++i) {
      auto wanted = sized<atalla_tensor>();
      atalla_describe_input(current(), i, &wanted);
      inputs_.push_back(place_for(wanted));
      check_form(i, inputs[i], inputs_.back().form);
      scatter(inputs[i], inputs_.back().memory.get(), inputs_.back().strides);
    }
    outputs_.clear();
    for (std::uint32_t i = 0; i < info_.outputs; ++i) {
      auto wanted = sized<atalla_tensor>();
      atalla_describe_output(current(), i, &wanted);
      outputs_.push_back(place_for(wanted));
    }
    given_ = addresses(inputs_);
    made_ = addresses(outputs_);
  }

  void run() override {
    auto error = sized<atalla_error>();
    check(atalla_run(context_.get(), given_.data(), made_.data(), &error), error, Outcome::kRunFail, "run");
  }

  void reset() override {
    if (atalla_reset(context_.get()) != ATALLA_OK) throw Failure(Outcome::kRunFail, "Atalla cannot reset its state");
  }

  std::vector<Tensor> outputs() const override {
    std::vector<Tensor> tensors;
    for (std::uint32_t i = 0; i < info_.outputs; ++i) {
      const auto& place = outputs_[i];
      tensors.push_back(place.memory ? place.form : number(i));
      if (place.memory) gather(tensors.back(), place.memory.get(), place.strides);
    }
    return tensors;
  }

  std::vector<Timing> timings() const override {
    if (!how_.profiles) return {};
    std::vector<std::uint64_t> ns(info_.instructions);
    const auto count = std::min<std::size_t>(atalla_times(context_.get(), ns.data(), ns.size()), ns.size());
    std::vector<Timing> rows;
    for (std::uint32_t i = 0; i < count; ++i) {
      auto row = sized<atalla_instruction>();
      if (atalla_describe_instruction(current(), i, &row) != ATALLA_OK || std::strcmp(row.op, "END") == 0) continue;
      const auto name = row.op + std::string(row.node_size > 0 ? " " : "") + std::string(row.node, row.node_size);
      rows.push_back({name, "instruction", 1, static_cast<double>(ns[i]) / 1e6});
    }
    return rows;
  }

 private:
  const atalla_blob* current() const { return special_ ? special_.get() : blob_.get(); }

  // Makes the memory and the threads of a run; what the program keeps from run to run is as at first.
  void prepare(const atalla_blob* blob) {
    auto options = sized<atalla_options>();
    options.threads = static_cast<std::uint32_t>(how_.threads);
    options.profile = how_.profiles ? 1 : 0;
    auto error = sized<atalla_error>();
    atalla_context* context = nullptr;
    check(atalla_context_new(blob, &options, &context, &error), error, Outcome::kLoadFail, "prepare a run");
    context_.reset(context);
  }

  // Makes the program for these inputs' shapes, where it has symbols and was prepared for others.
  void fit(const std::vector<Tensor>& inputs) {
    bool same = true;
    std::vector<atalla_tensor> shapes;
    for (std::uint32_t i = 0; i < info_.inputs; ++i) {
      auto row = sized<atalla_tensor>();
      atalla_describe_input(current(), i, &row);
      same = same && inputs[i].shape == std::vector<std::int64_t>(row.shape, row.shape + row.rank);
      row.rank = static_cast<std::uint32_t>(inputs[i].shape.size());
      row.shape = inputs[i].shape.data();
      shapes.push_back(row);
    }
    if (same || info_.symbols == 0) return;
    auto error = sized<atalla_error>();
    atalla_blob* special = nullptr;
    check(atalla_specialize(blob_.get(), shapes.data(), shapes.size(), &special, &error), error, Outcome::kRunFail,
          "take the sample's shapes");
    context_.reset();
    special_.reset(special);
    prepare(special);
  }

  static void check_form(std::uint32_t index, const Tensor& input, const Tensor& form) {
    const auto name = "input " + std::to_string(index);
    if (input.dtype != form.dtype)
      throw Failure(Outcome::kRunFail, name + " is " + input.dtype + ", not " + form.dtype);
    if (input.shape != form.shape) {
      throw Failure(Outcome::kRunFail, name + " has shape " + shown(input.shape) + ", not " + shown(form.shape));
    }
  }

  static std::vector<void*> addresses(const std::vector<Place>& places) {
    std::vector<void*> found;
    for (const auto& place : places) found.push_back(place.memory.get());
    found.push_back(nullptr);  // so that there is an address where there are none
    return found;
  }

  // Returns an output that is a number, as NumPy has it.
  Tensor number(std::uint32_t index) const {
    std::uint32_t kind = 0;
    std::int64_t value = 0;
    atalla_describe_value(current(), index, &kind, &value);
    if (kind == 1) throw Failure(Outcome::kRunFail, "output " + std::to_string(index) + " is not a tensor");
    Tensor tensor{kind == 2 ? "int64" : kind == 3 ? "float64" : "bool", {}, {}};
    if (kind == 4) value = value != 0;
    tensor.data.resize(item_size(tensor.dtype));
    std::memcpy(tensor.data.data(), &value, tensor.data.size());
    return tensor;
  }

  // In the order of their dependence: what is below goes first.
  Mapped file_;
  Opening how_;
  atalla_info info_ = sized<atalla_info>();
  Blob blob_;
  Blob special_;  // for other shapes than those of the example
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::vector<void*> given_;
  std::vector<void*> made_;
  Context context_;
};

}  // namespace

std::unique_ptr<Session> open_atalla(const Artifact& artifact, const Opening& how) {
  return std::make_unique<AtallaSession>(artifact.payload.string(), how);
}

}  // namespace cross_backend
