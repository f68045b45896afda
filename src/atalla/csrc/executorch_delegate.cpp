// AtallaBackend: blobs inside an ExecuTorch program (.pte). Opened by atalla/build_delegate.py, or linked into a
// program; either way it registers itself when it is loaded. No exceptions, and no memory is taken while a program
// runs.
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>
#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "atalla.h"
#include "isa.h"

namespace {

namespace et = executorch::runtime;
using et::Error;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;

constexpr const char* kName = "AtallaBackend";
constexpr const char* kThreads = "threads";
constexpr int kMostThreads = 4096;
constexpr std::size_t kAlignment = 64;  // of constants, which kernels read in whole lines

Error error_of(int status) {
  switch (status) {
    case ATALLA_OK:
      return Error::Ok;
    case ATALLA_OUT_OF_MEMORY:
      return Error::MemoryAllocationFailed;
    case ATALLA_NO_HOST:
      return Error::NotSupported;
    case ATALLA_BUSY:
      return Error::InvalidState;
    case ATALLA_BAD_ARGUMENT:
    case ATALLA_BAD_INDEX:
    case ATALLA_ZERO_DIVISOR:
      return Error::InvalidArgument;
    case AT_BAD_VERSION:
    case AT_BAD_ENDIAN:
      return Error::DelegateInvalidCompatibility;
    default:
      return status >= ATALLA_BAD_BLOB ? Error::InvalidProgram : Error::Internal;
  }
}

ScalarType type_of(std::uint32_t dtype) {
  switch (dtype) {
    case AT_F32:
      return ScalarType::Float;
    case AT_F64:
      return ScalarType::Double;
    case AT_F16:
      return ScalarType::Half;
    case AT_BF16:
      return ScalarType::BFloat16;
    case AT_I8:
      return ScalarType::Char;
    case AT_U8:
      return ScalarType::Byte;
    case AT_I16:
      return ScalarType::Short;
    case AT_I32:
      return ScalarType::Int;
    case AT_I64:
      return ScalarType::Long;
    case AT_BOOL:
      return ScalarType::Bool;
    default:
      return ScalarType::Undefined;
  }
}

// Whether a tensor of the runtime has the type, shape and strides that the blob was compiled for.
bool fits(const Tensor& tensor, const atalla_tensor& wanted) {
  if (tensor.scalar_type() != type_of(wanted.dtype)) return false;
  if (static_cast<std::uint32_t>(tensor.dim()) != wanted.rank) return false;
  bool same = true, is_empty = false;
  for (std::uint32_t i = 0; i < wanted.rank; ++i) {
    const auto extent = static_cast<std::int64_t>(tensor.sizes()[i]);
    if (extent != wanted.shape[i]) return false;
    is_empty = is_empty || extent == 0;
    same = same && (extent == 1 || tensor.strides()[i] == wanted.strides[i]);
  }
  return same || is_empty;
}

// One blob that was opened, and what a run of it needs.
struct Handle {
  atalla_blob* blob = nullptr;
  atalla_context* context = nullptr;
  et::FreeableBuffer* borrowed = nullptr;  // the blob's bytes, where they lie in the program as they should
  void* copied = nullptr;                  // else their copy
  atalla_info info{};
  void** inputs = nullptr;
  void** outputs = nullptr;
  std::uint64_t* times = nullptr;  // only while the runtime records events

  ~Handle() {
    atalla_context_free(context);
    atalla_close(blob);
    std::free(copied);
    std::free(times);
    if (borrowed) borrowed->Free();
  }
};

class AtallaBackend final : public et::BackendInterface {
 public:
  bool is_available() const override { return true; }

  et::Result<et::DelegateHandle*> init(et::BackendInitContext& context, et::FreeableBuffer* processed,
                                       et::ArrayRef<et::CompileSpec> specs) const override {
    auto* memory = context.get_runtime_allocator();
    auto* handle = memory->allocateInstance<Handle>();
    if (!handle) return Error::MemoryAllocationFailed;
    new (handle) Handle;
    const auto error = open(context, processed, specs, handle);
    if (error != Error::Ok) {
      handle->~Handle();
      return error;
    }
    return handle;
  }

  Error execute(et::BackendExecutionContext& context, et::DelegateHandle* opaque,
                et::Span<et::EValue*> args) const override {
    auto* handle = static_cast<Handle*>(opaque);
    if (!handle) return Error::DelegateInvalidHandle;
    const auto& info = handle->info;
    if (args.size() != static_cast<std::size_t>(info.inputs) + info.outputs) {
      ET_LOG(Error, "%s: %zu arguments instead of %u inputs and %u outputs", kName, args.size(), info.inputs,
             info.outputs);
      return Error::InvalidArgument;
    }
    for (std::uint32_t i = 0; i < info.inputs + info.outputs; ++i) {
      const bool is_input = i < info.inputs;
      const auto number = is_input ? i : i - info.inputs;
      atalla_tensor wanted{};
      wanted.struct_size = sizeof wanted;
      is_input ? atalla_describe_input(handle->blob, number, &wanted)
               : atalla_describe_output(handle->blob, number, &wanted);
      if (!args[i] || !args[i]->isTensor() || !fits(args[i]->toTensor(), wanted)) {
        ET_LOG(Error, "%s: %s %u is not laid out as the program was compiled for", kName, is_input ? "input" : "output",
               number);
        return Error::InvalidArgument;
      }
      const auto& tensor = args[i]->toTensor();
      const void* data = is_input ? tensor.const_data_ptr() : tensor.mutable_data_ptr();
      if (!data && tensor.nbytes()) {
        ET_LOG(Error, "%s: %s %u has no memory", kName, is_input ? "input" : "output", number);
        return Error::InvalidState;
      }
      (is_input ? handle->inputs : handle->outputs)[number] = const_cast<void*>(data);
    }
    const auto began = et::pal_current_ticks();
    atalla_error why{};
    why.struct_size = sizeof why;
    const int status = atalla_run(handle->context, handle->inputs, handle->outputs, &why);
    if (status != ATALLA_OK) {
      ET_LOG(Error, "%s: %s", kName, why.text);
      return error_of(status);
    }
    if (handle->times) record(context.event_tracer(), *handle, began);
    return Error::Ok;
  }

  // "threads": of programs that are loaded from now on. Options that are given for one program go before it.
  Error set_option(et::BackendOptionContext&, const et::Span<et::BackendOption>& options) override {
    for (const auto& option : options) {
      const auto* count = std::get_if<int>(&option.value);
      if (std::strcmp(option.key, kThreads) != 0 || !count || *count < 1 || *count > kMostThreads) {
        ET_LOG(Error, "%s: the only option is %s, a number from 1 to %d", kName, kThreads, kMostThreads);
        return Error::InvalidArgument;
      }
      threads_ = *count;
    }
    return Error::Ok;
  }

  Error get_option(et::BackendOptionContext&, et::Span<et::BackendOption>& options) override {
    for (auto& option : options) {
      if (std::strcmp(option.key, kThreads) == 0) option.value = threads_.load();
    }
    return Error::Ok;
  }

  void destroy(et::DelegateHandle* opaque) const override {
    if (opaque) static_cast<Handle*>(opaque)->~Handle();  // its memory is the program's
  }

 private:
  // Opens the blob. What it takes is the handle's, whose end frees it.
  Error open(et::BackendInitContext& context, et::FreeableBuffer* processed, et::ArrayRef<et::CompileSpec> specs,
             Handle* handle) const {
    handle->borrowed = processed;
    const void* bytes = processed->data();
    const auto size = processed->size();
    if (reinterpret_cast<std::uintptr_t>(bytes) % kAlignment != 0) {
      handle->copied = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
      if (!handle->copied) return Error::MemoryAllocationFailed;
      std::memcpy(handle->copied, bytes, size);
      bytes = handle->copied;
      processed->Free();
      handle->borrowed = nullptr;
    }
    atalla_error why{};
    why.struct_size = sizeof why;
    int status = atalla_open(bytes, size, &handle->blob, &why);
    if (status == ATALLA_OK) status = atalla_check_constants(handle->blob);
    if (status != ATALLA_OK) {
      ET_LOG(Error, "%s: no sound blob (%d): %s", kName, status, why.text);
      return error_of(status);
    }
    atalla_options options{};
    options.struct_size = sizeof options;
    options.threads = static_cast<std::uint32_t>(threads(context, specs));
    options.profile = context.event_tracer() != nullptr;
    status = atalla_context_new(handle->blob, &options, &handle->context, &why);
    if (status != ATALLA_OK) {
      ET_LOG(Error, "%s: %s", kName, why.text);
      return error_of(status);
    }
    handle->info.struct_size = sizeof handle->info;
    atalla_describe(handle->blob, &handle->info);
    auto* memory = context.get_runtime_allocator();
    handle->inputs = memory->allocateList<void*>(handle->info.inputs + 1);
    handle->outputs = memory->allocateList<void*>(handle->info.outputs + 1);
    if (!handle->inputs || !handle->outputs) return Error::MemoryAllocationFailed;
    if (options.profile) {
      handle->times = static_cast<std::uint64_t*>(std::calloc(handle->info.instructions, sizeof *handle->times));
      if (!handle->times) return Error::MemoryAllocationFailed;
    }
    return Error::Ok;
  }

  // What was said when this program was loaded, else for all programs, else when it was compiled.
  int threads(const et::BackendInitContext& context, et::ArrayRef<et::CompileSpec> specs) const {
    const auto given = context.get_runtime_spec<int>(kThreads);
    if (given.ok() && *given >= 1 && *given <= kMostThreads) return *given;
    if (const int all = threads_) return all;
    for (const auto& spec : specs) {
      if (std::strcmp(spec.key, kThreads) != 0) continue;
      int count = 0;
      for (std::size_t i = 0; i < spec.value.nbytes && count <= kMostThreads; ++i) {
        const int digit = static_cast<const char*>(spec.value.buffer)[i] - '0';
        if (digit < 0 || digit > 9) return 1;
        count = 10 * count + digit;
      }
      return count >= 1 && count <= kMostThreads ? count : 1;
    }
    return 1;
  }

  // Reports to the runtime's profiler the time of each instruction, under the name that preprocess() gave it.
  static void record(et::EventTracer* tracer, const Handle& handle, et_timestamp_t began) {
    const auto ratio = et::pal_ticks_to_ns_multiplier();
    atalla_times(handle.context, handle.times, handle.info.instructions);
    std::uint64_t spent_ns = 0;
    for (std::uint32_t i = 0; i + 1 < handle.info.instructions; ++i) {  // the last one is END
      atalla_instruction row{};
      row.struct_size = sizeof row;
      atalla_describe_instruction(handle.blob, i, &row);
      char name[128];
      std::snprintf(name, sizeof name, "%s %.*s", row.op, static_cast<int>(row.node_size), row.node);
      const auto from = began + spent_ns * ratio.denominator / ratio.numerator;
      spent_ns += handle.times[i];
      const auto to = began + spent_ns * ratio.denominator / ratio.numerator;
      et::event_tracer_log_profiling_delegate(tracer, name, et::kUnsetDelegateDebugIntId, from, to);
    }
  }

  std::atomic<int> threads_{0};  // 0: nothing was said
};

AtallaBackend backend;
const auto registered = et::register_backend({kName, &backend});

}  // namespace

// The same as the option "threads", for callers of C; not 0 where it is refused.
extern "C" ATALLA_API int atalla_delegate_set_threads(int count) {
  et::BackendOption option{};
  std::strncpy(option.key, kThreads, sizeof option.key - 1);
  option.value = count;
  return static_cast<int>(et::set_option(kName, {&option, 1}));
}

// Whether the runtime took the backend; not 0 is its error: another library registered that name before.
extern "C" ATALLA_API int atalla_delegate_registered(void) { return static_cast<int>(registered); }
