#include "limits.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "outcome.h"

namespace cross_backend {
namespace {

constexpr double kRounding = 6e-5;   // where the sample does not tell
constexpr double kUnstableGain = 2;  // tolerance per rounding error where that is more than the largest tolerance
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct Precision {
  const char* name;
  double gain;  // tolerance per rounding error of float32; those of narrower types are larger by as many bits
  double least;
  double most;
  double mean;
};

constexpr std::array<Precision, 6> kPrecisions{{
    {"bf16", 4.0 * (1 << 16), 5e-2, 2.0, 0.3},
    {"fp16", 4.0 * (1 << 13), 1e-2, 2.0, 0.15},
    {"fp32", 12.0, 1e-6, 1e-2, kUnlimited},
    {"int4w", 0.0, 6.0, 6.0, 0.6},
    {"int8", 0.0, 4.0, 4.0, 0.4},
    {"int8dyn", 0.0, 4.0, 4.0, 0.4},
}};

}  // namespace

Limits limits_of(const std::string& precision, std::optional<double> rounding) {
  for (const auto& row : kPrecisions) {
    if (precision != row.name) continue;
    const double seen = rounding.value_or(kRounding);
    return {std::min(std::max(row.gain * seen, row.least), std::max(row.most, kUnstableGain * seen)), row.mean};
  }
  throw UsageError("this runner knows no precision '" + precision + "'.");
}

std::optional<double> rounding_of(const std::string& dtype) {
  if (dtype == "bfloat16") return 4.0 / (1 << 8);
  if (dtype == "float16") return 4.0 / (1 << 11);
  return std::nullopt;
}

std::string precision_of(const std::string& target) {
  const auto mark = target.find('?');
  std::istringstream options(mark == std::string::npos ? "" : target.substr(mark + 1));
  for (std::string option; std::getline(options, option, '&');) {
    if (option.rfind("precision=", 0) == 0) return option.substr(option.find('=') + 1);
  }
  return "fp32";
}

}  // namespace cross_backend
