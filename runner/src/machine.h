// The identity of the computer that measured.
#pragma once

#include <string>

namespace cross_backend {

struct Machine {
  std::string cpu;     // processor model as the operating system names it
  std::string system;  // "linux", "android", "macos", "windows", …
  std::string arch;    // "x86_64", "arm64", …
  unsigned usable_cpus;
};

Machine this_machine();

}  // namespace cross_backend
