#include "executorch_runtime.h"

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/platform.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#ifdef __linux__
#include <sched.h>
#endif

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

namespace cross_backend::executorch_runtime {
namespace {

namespace et = executorch::runtime;
using executorch::aten::ScalarType;

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

// The runtime returns numbers; what happened is only in its log. The first error is the cause of those that follow.
std::string first_error;

void keep_error(et_timestamp_t, et_pal_log_level_t level, const char*, const char*, size_t, const char* message,
                size_t length) {
  if (level == et_pal_log_level_t::kFatal) {  // the process ends now: these are its last words
    std::fprintf(stderr, "%.*s\n", static_cast<int>(length), message);
  } else if (level == et_pal_log_level_t::kError && first_error.empty()) {
    first_error.assign(message, length);
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

bool holds(const std::vector<std::string>& ids, const char* id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Returns what brings a delegate that this build lacks; empty where that is not known.
std::string remedy_for(const std::string& id) {
  if (id == kAtalla) return "build it in a checkout that has src/atalla, without -DRUNNER_ATALLA=OFF";
  for (const auto& [known, option] : kBuildOptions) {
    if (id != known) continue;
    return std::string("build ") + (id == "MPSBackend" ? "ExecuTorch 1.4" : "ExecuTorch") + " with -D" + option +
           "=ON, and the runner with that";
  }
  return "";
}

}  // namespace

void start() {
  static const bool started = [] {
    et::runtime_init();
    return et::register_pal(et::PalImpl::create(keep_error, __FILE__));
  }();
  static_cast<void>(started);
  first_error.clear();
}

void forget_error() { first_error.clear(); }

void check(et::Error error, Outcome otherwise, const char* doing) {
  if (error == et::Error::Ok) return;
  char code[16];
  std::snprintf(code, sizeof code, "0x%x", static_cast<unsigned>(error));
  auto text = std::string("ExecuTorch cannot ") + doing + ": error " + code;
  if (!first_error.empty()) text += ", " + first_error;
  if (error == et::Error::OperatorMissing) throw Unavailable(text);
  throw Failure(otherwise, text);
}

void check_delegates(const std::vector<std::string>& ids) {
  for (const auto& id : ids) {
    const auto* backend = et::get_backend_class(id.c_str());
    if (!backend) {
      throw Unavailable("the ExecuTorch that this runner was built with does not hold " + id, remedy_for(id));
    }
    if (!backend->is_available()) {
      throw Unavailable(id + " is not available on this machine" + (first_error.empty() ? "" : ": " + first_error));
    }
  }
}

std::vector<std::string> delegates() {
  start();
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < et::get_num_registered_backends(); ++i) {
    const auto name = et::get_backend_name(i);
    if (name.ok()) ids.emplace_back(*name);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

void set_threads(const std::vector<std::string>& ids, int threads) {
  if (holds(ids, kOpenVino)) keep_processors(threads);
  if (holds(ids, kAtalla) && et::get_backend_class(kAtalla)) {
    et::BackendOption option{"threads", threads};
    check(et::set_option(kAtalla, {&option, 1}), Outcome::kLoadFail, "set the number of threads");
  }
#ifdef ET_USE_THREADPOOL
  executorch::extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(static_cast<std::uint32_t>(threads));
#endif
}

std::string name_of(ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (type == known) return name;
  }
  return "";
}

ScalarType type_of(const std::string& name) {
  for (const auto& [known, type] : kTypes) {
    if (name == known) return type;
  }
  return ScalarType::Undefined;
}

}  // namespace cross_backend::executorch_runtime
