// The memory that this process takes.
#pragma once

#include <cstdint>

namespace cross_backend {

struct Memory {
  std::uint64_t resident;  // bytes now; 0 where the system does not tell
  std::uint64_t peak;      // most since the process began
};

Memory this_memory();

}  // namespace cross_backend
