// ExecuTorch: the method `forward` of a .pte file. The only file that knows this runtime.
#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>
#ifdef __linux__
#include <sched.h>
#endif

#include "outcome.h"
#include "session.h"

#ifdef ET_USE_THREADPOOL
// The package ships this library without its header (executorch 1.5.1, extension/threadpool/threadpool.h).
namespace executorch::extension::threadpool {
class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(std::uint32_t threads);
};
ThreadPool* get_threadpool();
}  // namespace executorch::extension::threadpool
#endif

namespace cross_backend {
namespace {

namespace et = executorch::runtime;
using executorch::aten::ScalarType;
using executorch::extension::TensorPtr;

constexpr std::array<std::pair<const char*, ScalarType>, 15> kTypes{{
    {"bfloat16", ScalarType::BFloat16},
    {"bool", ScalarType::Bool},
    {"complex128", ScalarType::ComplexDouble},
    {"complex64", ScalarType::ComplexFloat},
    {"float16", ScalarType::Half},
    {"float32", ScalarType::Float},
    {"float64", ScalarType::Double},
    {"int16", ScalarType::Short},
    {"int32", ScalarType::Int},
    {"int64", ScalarType::Long},
    {"int8", ScalarType::Char},
    {"uint16", ScalarType::UInt16},
    {"uint32", ScalarType::UInt32},
    {"uint64", ScalarType::UInt64},
    {"uint8", ScalarType::Byte},
}};

// Delegate id → the option of ExecuTorch's own build that brings it.
constexpr std::array<std::pair<const char*, const char*>, 6> kBuildOptions{{
    {"CoreMLBackend", "EXECUTORCH_BUILD_COREML"},
    {"MPSBackend", "EXECUTORCH_BUILD_MPS"},
    {"OpenvinoBackend", "EXECUTORCH_BUILD_OPENVINO"},
    {"QnnBackend", "EXECUTORCH_BUILD_QNN"},
    {"VulkanBackend", "EXECUTORCH_BUILD_VULKAN"},
    {"XnnpackBackend", "EXECUTORCH_BUILD_XNNPACK"},
}};

// OpenVINO's delegate takes as many threads as its process may use processors, and has no option for it.
constexpr auto kOpenVino = "OpenvinoBackend";

// Atalla's delegate, which is compiled into this program and has threads of its own.
constexpr auto kAtalla = "AtallaBackend";

// The runtime gives numbers; what happened is only in its log. The first error is the cause of those that follow.
std::string first_error;

void keep_error(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t, const char* message,
                size_t length) {
  if (level == et_pal_log_level_t::kFatal) {  // the process ends now: these are its last words
    std::fprintf(stderr, "%.*s\n", static_cast<int>(length), message);
  } else if (level == et_pal_log_level_t::kError && first_error.empty()) {
    first_error.assign(message, length);
  }
}

void start_runtime() {
  static const bool started = [] {
    et::runtime_init();
    return et::register_pal(et::PalImpl::create(keep_error, __FILE__));
  }();
  static_cast<void>(started);
  first_error.clear();
}

void check(et::Error error, Outcome otherwise, const char* doing) {
  if (error == et::Error::Ok) return;
  char code[16];
  std::snprintf(code, sizeof code, "0x%x", static_cast<unsigned>(error));
  auto text = std::string("ExecuTorch cannot ") + doing + ": error " + code;
  if (!first_error.empty()) text += ", " + first_error;
  throw Failure(error == et::Error::OperatorMissing ? Outcome::kUnavailable : otherwise, text);
}

void check_delegates(const std::vector<std::string>& ids) {
  for (const auto& id : ids) {
    const auto* backend = et::get_backend_class(id.c_str());
    if (!backend) {
      std::string text = "the ExecuTorch that this runner was built with does not hold " + id;
      if (id == kAtalla) text += "; build it in a checkout that has src/atalla, without -DRUNNER_ATALLA=OFF";
      for (const auto& [known, option] : kBuildOptions) {
        if (id == known)
          text += std::string("; build ") + (id == "MPSBackend" ? "ExecuTorch 1.4" : "ExecuTorch") + " with -D" +
                  option + "=ON, and the runner with that";
      }
      throw Failure(Outcome::kUnavailable, text);
    }
    if (!backend->is_available()) {
      throw Failure(Outcome::kUnavailable,
                    id + " is not available on this machine" + (first_error.empty() ? "" : ": " + first_error));
    }
  }
}

// Leaves this process so many of the processors that it may use, the first ones.
void keep_processors(int count) {
#ifdef __linux__
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  for (int cpu = 0, kept = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable) && ++kept > count) CPU_CLR(cpu, &usable);
  }
  sched_setaffinity(0, sizeof usable, &usable);
#else
  static_cast<void>(count);
#endif
}

bool uses(const Artifact& artifact, const char* id) {
  return std::find(artifact.delegates.begin(), artifact.delegates.end(), id) != artifact.delegates.end();
}

void set_threads(const Artifact& artifact, int threads) {
  if (!uses(artifact, kAtalla)) return;
  et::BackendOption option{"threads", threads};
  check(et::set_option(kAtalla, {&option, 1}), Outcome::kLoadFail, "set the number of threads");
}

Tensor copy(const executorch::aten::Tensor& source) {
  Tensor tensor;
  for (const auto& [name, type] : kTypes) {
    if (type == source.scalar_type()) tensor.dtype = name;
  }
  tensor.shape.assign(source.sizes().begin(), source.sizes().end());
  gather(tensor, source.const_data_ptr(), {source.strides().begin(), source.strides().end()});
  return tensor;
}

class ExecuTorchSession final : public Session {
 public:
  explicit ExecuTorchSession(const std::string& path) {
    auto loader = executorch::extension::FileDataLoader::from(path.c_str());
    check(loader.error(), Outcome::kLoadFail, "open the file");
    loader_.emplace(std::move(loader.get()));
    auto program = et::Program::load(&*loader_, et::Program::Verification::InternalConsistency);
    check(program.error(), Outcome::kLoadFail, "load the program");
    program_.emplace(std::move(program.get()));
    plan_memory();
    auto method = program_->load_method(kMethod, &*manager_);
    check(method.error(), Outcome::kLoadFail, "load the method");
    method_.emplace(std::move(method.get()));
  }

  void bind(const std::vector<Tensor>& inputs) override {
    first_error.clear();  // loading succeeded
    tensors_.clear();
    values_.clear();
    for (const auto& input : inputs) {
      std::vector<executorch::aten::SizesType> sizes(input.shape.begin(), input.shape.end());
      auto type = ScalarType::Undefined;
      for (const auto& [name, known] : kTypes) {
        if (input.dtype == name) type = known;
      }
      tensors_.push_back(executorch::extension::make_tensor_ptr(std::move(sizes), input.data, type));
      values_.emplace_back(*tensors_.back());
    }
    check_count(method_->inputs_size(), values_.size());
  }

  // Inputs are set every time: the runtime copies them into memory that later operators reuse.
  void run() override {
    check(method_->set_inputs({values_.data(), values_.size()}), Outcome::kRunFail, "take the sample's inputs");
    check(method_->execute(), Outcome::kRunFail, "run");
  }

  std::vector<Tensor> outputs() const override {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < method_->outputs_size(); ++i) {
      const auto& value = method_->get_output(i);
      if (!value.isTensor()) throw Failure(Outcome::kRunFail, "output " + std::to_string(i) + " is not a tensor");
      tensors.push_back(copy(value.toTensor()));
    }
    return tensors;
  }

 private:
  static constexpr auto kMethod = "forward";

  void plan_memory() {
    const auto meta = program_->method_meta(kMethod);
    check(meta.error(), Outcome::kLoadFail, "find the method forward");
    for (std::size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
      const auto size = meta->memory_planned_buffer_size(i);
      check(size.error(), Outcome::kLoadFail, "plan memory");
      arenas_.emplace_back(static_cast<std::size_t>(*size));
    }
    for (auto& arena : arenas_) spans_.emplace_back(arena.data(), arena.size());
    planned_.emplace(et::Span<et::Span<std::uint8_t>>(spans_.data(), spans_.size()));
    manager_.emplace(&method_memory_, &*planned_, &temporary_memory_);
  }

  // In the order of their dependence: what is below goes first.
  std::optional<executorch::extension::FileDataLoader> loader_;
  std::optional<et::Program> program_;
  executorch::extension::MallocMemoryAllocator method_memory_;
  executorch::extension::MallocMemoryAllocator temporary_memory_;
  std::vector<std::vector<std::uint8_t>> arenas_;
  std::vector<et::Span<std::uint8_t>> spans_;
  std::optional<et::HierarchicalAllocator> planned_;
  std::optional<et::MemoryManager> manager_;
  std::vector<TensorPtr> tensors_;
  std::vector<et::EValue> values_;
  std::optional<et::Method> method_;
};

}  // namespace

std::unique_ptr<Session> open_executorch(const Artifact& artifact, int threads) {
  start_runtime();
  if (uses(artifact, kOpenVino)) keep_processors(threads);
  check_delegates(artifact.delegates);
  set_threads(artifact, threads);
#ifdef ET_USE_THREADPOOL
  executorch::extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(static_cast<std::uint32_t>(threads));
#else
  static_cast<void>(threads);  // a build without the thread pool has one thread
#endif
  return std::make_unique<ExecuTorchSession>(artifact.payload.string());
}

}  // namespace cross_backend
