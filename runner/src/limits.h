// Limits: how far outputs may be from what is expected, by the precision of the arithmetic; verify/compare.py is the
// reference.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace cross_backend {

struct Limits {
  double tolerance;                                       // largest accepted deviation of an element
  double mean = std::numeric_limits<double>::infinity();  // and of the root mean square of all
};

// Returns the limits for a precision, "fp32" or "int8", say. `rounding` is what float32's rounding changes in the
// program's outputs, where that is known. Throws UsageError: there is no such precision.
Limits limits_of(const std::string& precision, std::optional<double> rounding);

// Returns what the rounding of a narrow type is taken to change in outputs of that type, where nothing else says it.
std::optional<double> rounding_of(const std::string& dtype);

// Returns the precision that a target's options ask for: executorch.xnnpack?precision=int8; float32 where they name
// none.
std::string precision_of(const std::string& target);

}  // namespace cross_backend
