#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#ifdef __linux__
#include <sched.h>
#endif
#ifndef _WIN32
#include <sys/utsname.h>
#include <unistd.h>
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

std::uint64_t memory_bytes() {
#ifdef __APPLE__
  std::uint64_t bytes = 0;
  std::size_t size = sizeof bytes;
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
#elif !defined(_WIN32)
  const auto pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
#else
  return 0;
#endif
}

std::string first_line(const std::filesystem::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// Returns the highest temperature of the system's zones.
std::optional<double> temperature_c() {
  std::optional<double> highest;
  std::error_code error;
  for (const auto& zone : std::filesystem::directory_iterator("/sys/class/thermal", error)) {
    if (zone.path().filename().string().rfind("thermal_zone", 0) != 0) continue;
    const auto text = first_line(zone.path() / "temp");
    const double degrees = std::strtod(text.c_str(), nullptr) / 1000;
    if (!text.empty()) highest = std::max(highest.value_or(degrees), degrees);
  }
  return highest;
}

}  // namespace

Machine this_machine() {
  Machine found{printable(processor()), kSystem, kArch, usable_cpus(), memory_bytes(), "", ""};
#ifndef _WIN32
  utsname name{};
  if (uname(&name) == 0) {
    found.release = printable(name.release);
    found.hostname = printable(name.nodename);
  }
#endif
  return found;
}

Condition this_condition() {
  Condition found{};
#if defined(__linux__)
  const auto load = first_line("/proc/loadavg");
  if (!load.empty()) found.load_1m = std::strtod(load.c_str(), nullptr);
#elif !defined(_WIN32)
  if (double load = 0; getloadavg(&load, 1) == 1) found.load_1m = load;
#endif
  found.governor = printable(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  found.temperature_c = temperature_c();
  found.clock_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  return found;
}

}  // namespace cross_backend
