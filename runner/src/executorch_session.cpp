// ExecuTorch: the method `forward` of a .pte file, alone or inside of a bundled program.
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "executorch_runtime.h"
#include "executorch_tracer.h"
#include "outcome.h"
#include "session.h"

namespace cross_backend {
namespace {

namespace et = executorch::runtime;
using executorch::extension::FileDataLoader;
using executorch::extension::TensorPtr;
using executorch_runtime::check;

// A program that lies inside of a file.
class PartLoader final : public et::DataLoader {
 public:
  PartLoader(FileDataLoader file, std::uint64_t offset, std::uint64_t size)
      : file_(std::move(file)), offset_(static_cast<std::size_t>(offset)), size_(static_cast<std::size_t>(size)) {}

  et::Result<et::FreeableBuffer> load(std::size_t offset, std::size_t size, const SegmentInfo& info) const override {
    if (!holds(offset, size)) return et::Error::InvalidArgument;
    return file_.load(offset_ + offset, size, info);
  }

  et::Error load_into(std::size_t offset, std::size_t size, const SegmentInfo& info, void* to) const override {
    return holds(offset, size) ? file_.load_into(offset_ + offset, size, info, to) : et::Error::InvalidArgument;
  }

  et::Result<std::size_t> size() const override {
    if (size_ > 0) return size_;
    const auto whole = file_.size();
    if (!whole.ok()) return whole.error();
    return *whole - offset_;
  }

 private:
  bool holds(std::size_t offset, std::size_t size) const {
    return size_ == 0 || (offset <= size_ && size <= size_ - offset);
  }

  FileDataLoader file_;
  std::size_t offset_;
  std::size_t size_;  // 0: up to the end
};

Tensor copy(const executorch::aten::Tensor& source) {
  Tensor tensor{executorch_runtime::name_of(source.scalar_type()), {source.sizes().begin(), source.sizes().end()}, {}};
  gather(tensor, source.const_data_ptr(), {source.strides().begin(), source.strides().end()});
  return tensor;
}

class ExecuTorchSession final : public Session {
 public:
  ExecuTorchSession(const Artifact& artifact, const Opening& how) {
    auto file = FileDataLoader::from(artifact.payload.string().c_str());
    check(file.error(), Outcome::kLoadFail, "open the file");
    loader_.emplace(std::move(file.get()), artifact.offset, artifact.offset > 0 ? artifact.size_bytes : 0);
    auto program = et::Program::load(&*loader_, et::Program::Verification::InternalConsistency);
    check(program.error(), Outcome::kLoadFail, "load the program");
    program_.emplace(std::move(program.get()));
    const auto meta = program_->method_meta(kMethod);
    check(meta.error(), Outcome::kLoadFail, "find the method forward");
    auto ids = artifact.delegates;
    for (std::size_t i = 0; i < meta->num_backends(); ++i) {
      const auto* id = *meta->get_backend_name(i);
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.emplace_back(id);
    }
    executorch_runtime::set_threads(ids, how.threads);
    executorch_runtime::check_delegates(ids);
    if (ids.size() == 1) delegate_ = ids.front();
    plan_memory(*meta);
    if (how.profiles) tracer_.emplace();
    load_method();
  }

  std::vector<Tensor> takes() const override {
    const auto meta = method_->method_meta();
    std::vector<Tensor> forms;
    for (std::size_t i = 0; i < meta.num_inputs(); ++i) {
      const auto name = "input " + std::to_string(i);
      const auto tag = meta.input_tag(i);
      if (!tag.ok() || *tag != et::Tag::Tensor) throw Unsupported(name + " is no tensor, and only tensors are given.");
      const auto tensor = meta.input_tensor_meta(i);
      check(tensor.error(), Outcome::kLoadFail, "describe an input");
      Tensor form{executorch_runtime::name_of(tensor->scalar_type()), {}, {}};
      if (form.dtype.empty()) throw Unsupported(name + " is of a type that no input can be drawn of.");
      form.shape.assign(tensor->sizes().begin(), tensor->sizes().end());
      forms.push_back(std::move(form));
    }
    return forms;
  }

  void bind(const std::vector<Tensor>& inputs) override {
    executorch_runtime::forget_error();  // loading succeeded
    tensors_.clear();
    values_.clear();
    for (const auto& input : inputs) {
      std::vector<executorch::aten::SizesType> sizes(input.shape.begin(), input.shape.end());
      const auto type = executorch_runtime::type_of(input.dtype);
      tensors_.push_back(executorch::extension::make_tensor_ptr(std::move(sizes), input.data, type));
      values_.emplace_back(*tensors_.back());
    }
    check_count(method_->inputs_size(), values_.size());
  }

  // Inputs are set every time: the runtime copies them into memory that later operators reuse.
  void run() override {
    if (tracer_) tracer_->clear();
    check(method_->set_inputs({values_.data(), values_.size()}), Outcome::kRunFail, "take the sample's inputs");
    check(method_->execute(), Outcome::kRunFail, "run");
  }

  // A method keeps what it changed as long as it is loaded.
  void reset() override { load_method(); }

  std::vector<Tensor> outputs() const override {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < method_->outputs_size(); ++i) {
      const auto& value = method_->get_output(i);
      if (!value.isTensor()) throw Failure(Outcome::kRunFail, "output " + std::to_string(i) + " is not a tensor");
      tensors.push_back(copy(value.toTensor()));
    }
    return tensors;
  }

  std::vector<Timing> timings() const override { return tracer_ ? tracer_->timings(delegate_) : std::vector<Timing>{}; }

 private:
  static constexpr auto kMethod = "forward";

  void load_method() {
    method_.reset();
    method_memory_.reset();
    auto method = program_->load_method(kMethod, &*manager_, tracer_ ? &*tracer_ : nullptr);
    check(method.error(), Outcome::kLoadFail, "load the method");
    method_.emplace(std::move(method.get()));
  }

  void plan_memory(const et::MethodMeta& meta) {
    for (std::size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
      const auto size = meta.memory_planned_buffer_size(i);
      check(size.error(), Outcome::kLoadFail, "plan memory");
      arenas_.emplace_back(static_cast<std::size_t>(*size));
    }
    for (auto& arena : arenas_) spans_.emplace_back(arena.data(), arena.size());
    planned_.emplace(et::Span<et::Span<std::uint8_t>>(spans_.data(), spans_.size()));
    manager_.emplace(&method_memory_, &*planned_, &temporary_memory_);
  }

  std::string delegate_;  // its id, where it is the only one
  // In the order of their dependence: what is below goes first.
  std::optional<PartLoader> loader_;
  std::optional<et::Program> program_;
  executorch::extension::MallocMemoryAllocator method_memory_;
  executorch::extension::MallocMemoryAllocator temporary_memory_;
  std::vector<std::vector<std::uint8_t>> arenas_;
  std::vector<et::Span<std::uint8_t>> spans_;
  std::optional<et::HierarchicalAllocator> planned_;
  std::optional<et::MemoryManager> manager_;
  std::optional<ExecuTorchTracer> tracer_;
  std::vector<TensorPtr> tensors_;
  std::vector<et::EValue> values_;
  std::optional<et::Method> method_;
};

}  // namespace

std::unique_ptr<Session> open_executorch(const Artifact& artifact, const Opening& how) {
  executorch_runtime::start();
  return std::make_unique<ExecuTorchSession>(artifact, how);
}

std::vector<std::string> delegates_of_executorch() { return executorch_runtime::delegates(); }

}  // namespace cross_backend
