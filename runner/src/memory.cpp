#include "memory.h"

#include <fstream>
#include <sstream>
#include <string>
#ifdef __APPLE__
#include <mach/mach.h>
#endif

namespace cross_backend {

#if defined(__linux__)

Memory this_memory() {
  Memory used{};
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kilobytes = 0;
    words >> key >> kilobytes;
    if (key == "VmRSS:") used.resident = kilobytes * 1024;
    if (key == "VmHWM:") used.peak = kilobytes * 1024;
  }
  return used;
}

#elif defined(__APPLE__)

Memory this_memory() {
  Memory used{};
  mach_task_basic_info info{};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&info), &count) == KERN_SUCCESS) {
    used.resident = info.resident_size;
    used.peak = info.resident_size_max;
  }
  return used;
}

#else

Memory this_memory() { return {}; }

#endif

}  // namespace cross_backend
