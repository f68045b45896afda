// The identity of the computer that measured, and the state that it is in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cross_backend {

struct Machine {
  std::string cpu;     // processor model as the operating system names it
  std::string system;  // "linux", "android", "macos", "windows", …
  std::string arch;    // "x86_64", "arm64", …
  unsigned usable_cpus;
  std::uint64_t memory_bytes;  // 0 where the system does not tell
  std::string release;         // of the operating system; empty where it does not tell
  std::string hostname;
};

// What may disturb a measurement.
struct Condition {
  std::optional<double> load_1m;
  std::string governor;                 // of the first processor's clock; empty where the system does not tell
  std::optional<double> temperature_c;  // of the hottest zone
  std::int64_t clock_ns;                // of the clock that times calls
};

Machine this_machine();
Condition this_condition();

}  // namespace cross_backend
