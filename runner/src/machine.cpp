#include "machine.h"

#include <cstdlib>
#include <fstream>
#include <thread>
#ifdef __linux__
#include <sched.h>
#endif
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "text.h"

namespace cross_backend {
namespace {

#if defined(__ANDROID__)
constexpr auto kSystem = "android";
#elif defined(__linux__)
constexpr auto kSystem = "linux";
#elif defined(__APPLE__)
constexpr auto kSystem = "macos";
#elif defined(_WIN32)
constexpr auto kSystem = "windows";
#else
constexpr auto kSystem = "other";
#endif

#if defined(__x86_64__) || defined(_M_X64)
constexpr auto kArch = "x86_64";
#elif defined(__aarch64__) || defined(_M_ARM64)
constexpr auto kArch = "arm64";
#elif defined(__arm__)
constexpr auto kArch = "arm";
#elif defined(__riscv)
constexpr auto kArch = "riscv64";
#else
constexpr auto kArch = "other";
#endif

std::string processor() {
#if defined(__linux__)
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
#elif defined(__APPLE__)
  char name[256];
  std::size_t size = sizeof name;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0) return name;
#elif defined(_WIN32)
  if (const char* name = std::getenv("PROCESSOR_IDENTIFIER")) return name;
#endif
  return kArch;
}

unsigned usable_cpus() {
#ifdef __linux__
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) return static_cast<unsigned>(CPU_COUNT(&usable));
#endif
  const auto count = std::thread::hardware_concurrency();
  return count ? count : 1;
}

}  // namespace

Machine this_machine() { return {printable(processor()), kSystem, kArch, usable_cpus()}; }

}  // namespace cross_backend
