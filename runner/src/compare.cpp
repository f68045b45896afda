#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace cross_backend {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Sums {
  double signal = 0;
  double noise = 0;
  double max_abs = 0;
  double max_rel = 0;
};

// NumPy has no bfloat16, so such outputs are kept as float32 in the sample.
const std::string& stored_type(const std::string& dtype) {
  static const std::string float32 = "float32";
  return dtype == "bfloat16" ? float32 : dtype;
}

bool same_special(double want, double got) { return want == got || (std::isnan(want) && std::isnan(got)); }

// Adds one output's errors; gives why it is wrong, or an empty text.
std::string add(const Tensor& expected, const Tensor& output, Sums& sums) {
  if (expected.shape != output.shape) {
    return "has shape " + shown(output.shape) + " instead of " + shown(expected.shape);
  }
  if (stored_type(expected.dtype) != stored_type(output.dtype)) {
    return "has type " + output.dtype + " instead of " + expected.dtype;
  }
  if (!is_floating(expected.dtype)) return expected.data == output.data ? "" : "differs; integers must be equal";
  const auto want = to_doubles(expected);
  const auto got = to_doubles(output);
  double difference = 0;
  double peak = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i]) || !std::isfinite(got[i])) {
      if (same_special(want[i], got[i])) continue;
      return "has NaN or infinite elements that are not expected, or lacks expected ones";
    }
    const double error = std::abs(got[i] - want[i]);
    difference = std::max(difference, error);
    peak = std::max(peak, std::abs(want[i]));
    sums.signal += want[i] * want[i];
    sums.noise += error * error;
  }
  sums.max_abs = std::max(sums.max_abs, difference);
  sums.max_rel = std::max(sums.max_rel, peak > 0 ? difference / peak : (difference > 0 ? kInfinity : 0.0));
  return "";
}

}  // namespace

Comparison compare_outputs(const std::vector<Tensor>& expected, const std::vector<Tensor>& outputs, double tolerance) {
  if (expected.size() != outputs.size()) {
    return {kNaN,  kNaN,
            kNaN,  tolerance,
            false, std::to_string(outputs.size()) + " outputs instead of " + std::to_string(expected.size())};
  }
  Sums sums;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto why = add(expected[i], outputs[i], sums);
    if (!why.empty()) return {kNaN, kNaN, kNaN, tolerance, false, "output " + std::to_string(i) + " " + why};
  }
  const double sqnr_db =
      sums.noise == 0 ? kInfinity : (sums.signal == 0 ? -kInfinity : 10 * std::log10(sums.signal / sums.noise));
  const bool right = sums.max_rel <= tolerance;
  char reason[100] = "";
  if (!right) {
    std::snprintf(reason, sizeof reason, "error %.2g of the largest output; %.0e is allowed", sums.max_rel, tolerance);
  }
  return {sums.max_abs, sums.max_rel, sqnr_db, tolerance, right, reason};
}

}  // namespace cross_backend
