#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>

#include "deviation.h"

namespace cross_backend {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Sums {
  double signal = 0;
  double noise = 0;
  double squares = 0;  // of deviations
  std::size_t count = 0;
  double max_abs = 0;
  double max_rel = 0;
  std::string output;  // which deviates most, and where
  std::string place;
};

// Outputs are wrong whatever the tolerance.
class Wrong : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool is_finite(std::complex<double> value) { return std::isfinite(value.real()) && std::isfinite(value.imag()); }

std::size_t count_different(const Tensor& expected, const Tensor& output) {
  const auto item = item_size(expected.dtype);
  std::size_t different = 0;
  for (std::size_t at = 0; at < expected.data.size(); at += item) {
    different += std::memcmp(&expected.data[at], &output.data[at], item) != 0;
  }
  return different;
}

void check_form(const std::string& name, const Tensor& expected, const Tensor& output) {
  if (expected.shape != output.shape) {
    throw Wrong(name + " has shape " + shown(output.shape) + " instead of " + shown(expected.shape));
  }
  if (expected.dtype != output.dtype) {
    throw Wrong(name + " has type " + output.dtype + " instead of " + expected.dtype);
  }
}

// Returns the indices of an element of a row-major tensor.
std::vector<std::int64_t> place_of(std::size_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    place[axis] = static_cast<std::int64_t>(element % static_cast<std::size_t>(shape[axis]));
    element /= static_cast<std::size_t>(shape[axis]);
  }
  return place;
}

// Adds one output's errors.
void judge(const std::string& name, const Tensor& expected, const Tensor& output, const std::vector<double>& scale,
           Sums& sums) {
  check_form(name, expected, output);
  const Elements want(expected), got(output);
  if (!is_floating(expected.dtype)) {
    const auto different = count_different(expected, output);
    if (different == 0) return;
    throw Wrong(name + " differs in " + std::to_string(different) + " of " + std::to_string(want.size()) + " elements");
  }
  std::size_t special = 0;
  bool moved = false, changed = false;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool finite = is_finite(got[i]);
    special += finite ? 0 : 1;
    moved = moved || finite != is_finite(want[i]);
    changed = changed || (!finite && !same(want[i], got[i]));
  }
  if (moved) throw Wrong(name + " has " + std::to_string(special) + " NaN or infinite element(s)");
  if (changed) throw Wrong(name + " differs in its NaN or infinite elements");
  double largest = -1;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!is_finite(want[i])) continue;
    const double error = std::abs(want[i] - got[i]), magnitude = std::abs(want[i]);
    const double off = deviation(want[i], got[i], scale[i]);
    sums.max_abs = std::max(sums.max_abs, error);
    if (off > largest) {
      largest = off;
      worst = i;
    }
    sums.squares += off * off;
    sums.signal += magnitude * magnitude;
    sums.noise += error * error;
    ++sums.count;
  }
  if (largest > sums.max_rel || (sums.place.empty() && largest >= 0)) {
    sums.max_rel = largest;
    sums.output = name;
    sums.place = shown(place_of(worst, expected.shape));
  }
}

// Returns each output's scale, from the bundle or, where it has none, from what it expects.
std::vector<std::vector<double>> scales(const Expectation& expected) {
  const auto& first = expected.outputs.front();
  std::vector<std::vector<double>> found;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (expected.scale.size() == first.size()) {
      found.push_back(to_doubles(expected.scale[i], SIZE_MAX));
    } else if (is_floating(first[i].dtype)) {
      const bool has_second = expected.outputs.size() > 1 && expected.outputs[1].size() == first.size() &&
                              expected.outputs[1][i].shape == first[i].shape;
      found.push_back(scale_of(first[i], has_second ? &expected.outputs[1][i] : nullptr));
    } else {
      found.emplace_back();
    }
  }
  return found;
}

// Returns the scale of an output where it has the shape of the first one, which the scale is of; else its own.
std::vector<double> scale_for(const Tensor& want, const Tensor& first, const std::vector<double>& scale) {
  if (!is_floating(want.dtype) || (want.shape == first.shape && scale.size() == Elements(want).size())) return scale;
  return scale_of(want, nullptr);
}

bool any_finite(const Tensor& tensor) {
  const Elements elements(tensor);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (is_finite(elements[i])) return true;
  }
  return false;
}

// Whether the outputs depend on the input: one moves by more than float32 may deviate in this program.
bool any_moved(const Expectation& expected) {
  std::optional<double> rounding;
  if (!expected.rounding.empty()) {
    rounding = to_doubles(expected.rounding.front(), 1).at(0);
  } else {
    for (const auto& one : expected.outputs.front()) rounding = std::max(rounding, rounding_of(one.dtype));
  }
  const double rounded = limits_of("fp32", rounding).tolerance;
  const auto &first = expected.outputs.front(), &second = expected.outputs.back();
  return !std::equal(first.begin(), first.end(), second.begin(), second.end(),
                     [&](const Tensor& a, const Tensor& b) { return !moved(a, b, rounded); });
}

// Returns why equal outputs would prove nothing; empty where they prove something.
std::string proves_nothing(const Expectation& expected) {
  const auto& first = expected.outputs.front();
  const auto is_empty = [](const Tensor& one) { return one.data.empty(); };
  if (std::all_of(first.begin(), first.end(), is_empty)) return "its outputs are empty";
  const auto tells = [](const Tensor& one) { return !is_floating(one.dtype) || any_finite(one); };
  if (std::none_of(first.begin(), first.end(), tells)) return "its outputs are all NaN or infinite";
  if (expected.outputs.size() > 1 && !any_moved(expected)) return "its outputs are the same for two different inputs";
  return "";
}

std::string formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string why_wrong(const Sums& sums, const Limits& limits, const Tensors& roundings) {
  const double mean = std::sqrt(sums.squares / static_cast<double>(std::max<std::size_t>(sums.count, 1)));
  if (!(sums.max_rel <= limits.tolerance)) {
    const double rounding = roundings.empty() ? 0 : to_doubles(roundings.front(), 1).at(0);
    const auto allowed = rounding > 0 ? formatted("%.2g", sums.max_rel / rounding) + " × the unavoidable rounding, " +
                                            formatted("%.2g", limits.tolerance / rounding) + " × is allowed"
                                      : formatted("%.1g", limits.tolerance) + " is allowed";
    return sums.output + " deviates by " + formatted("%.2g", sums.max_rel) + " of its scale at " + sums.place + "; " +
           allowed;
  }
  if (mean <= limits.mean) return "";
  return "outputs deviate by " + formatted("%.2g", mean) + " of their scale, root mean square; " +
         formatted("%.2g", limits.mean) + " is allowed";
}

}  // namespace

Comparison compare_outputs(const Expectation& expected, const std::vector<Tensors>& outputs, const Limits& limits) {
  Sums sums;
  try {
    const auto scale = scales(expected);
    for (std::size_t turn = 0; turn < expected.outputs.size(); ++turn) {
      const auto& want = expected.outputs[turn];
      const auto& got = outputs.at(turn);
      if (want.size() != got.size() || want.size() != scale.size()) {
        throw Wrong("returns " + std::to_string(got.size()) + " output(s) instead of " + std::to_string(want.size()));
      }
      for (std::size_t i = 0; i < want.size(); ++i) {
        const auto name = "output " + std::to_string(i) + (turn == 0 ? "" : " for the second input");
        judge(name, want[i], got[i], scale_for(want[i], expected.outputs.front()[i], scale[i]), sums);
      }
    }
  } catch (const Wrong& wrong) {
    return {kNaN, kNaN, kNaN, limits.tolerance, false, wrong.what(), ""};
  }
  const double sqnr_db =
      sums.noise == 0 ? kInfinity : (sums.signal == 0 ? -kInfinity : 10 * std::log10(sums.signal / sums.noise));
  const auto reason = why_wrong(sums, limits, expected.rounding);
  return {sums.max_abs, sums.max_rel, sqnr_db, limits.tolerance, reason.empty(), reason, proves_nothing(expected)};
}

Expectation joined(const Expectation& first, const Expectation& step) {
  Expectation both{step.outputs, {}, step.rounding};
  const auto &outputs = step.outputs.front(), &before = first.outputs.front();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& want = outputs[i];
    std::vector<double> scale(element_count(want.shape));
    if (is_floating(want.dtype)) {
      scale = scale_of(want, i < before.size() && before[i].shape == want.shape ? &before[i] : nullptr);
    }
    for (const auto* known : {&first.scale, &step.scale}) {
      if (i >= known->size() || (*known)[i].shape != want.shape) continue;
      const auto more = to_doubles((*known)[i], SIZE_MAX);
      std::transform(scale.begin(), scale.end(), more.begin(), scale.begin(),
                     [](double a, double b) { return std::max(a, b); });
    }
    const std::vector<float> narrow(scale.begin(), scale.end());
    Tensor tensor{"float32", want.shape, std::vector<std::uint8_t>(narrow.size() * sizeof(float))};
    if (!narrow.empty()) std::memcpy(tensor.data.data(), narrow.data(), tensor.data.size());
    both.scale.push_back(std::move(tensor));
  }
  const auto number = [](const Tensors& one) { return one.empty() ? 0 : to_doubles(one.front(), 1).at(0); };
  if (number(first.rounding) > number(both.rounding)) both.rounding = first.rounding;
  return both;
}

}  // namespace cross_backend
