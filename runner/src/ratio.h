// The ratio of two artifacts measured in the same rounds: what each takes when nothing disturbs it, and how well that
// is known after one launch. docs/measurement.md explains it; measure/paired.py and precision.py are the reference.
#pragma once

#include <cmath>
#include <optional>

#include "statistics.h"

namespace cross_backend {

inline constexpr double kConfidence = 0.95;
inline constexpr std::size_t kMinRounds = 6;  // with fewer in common, two are not compared

// The logarithm of first / second.
struct LogRatio {
  double value;
  double half_width;  // half its interval, what processes differ by included
  double error;       // its standard error

  double low() const { return value - half_width; }
  double high() const { return value + half_width; }
  LogRatio at(double confidence, double floor) const;  // with another interval, at least `floor` wide to either side
  bool apart() const { return std::abs(value) > half_width; }  // the interval leaves out 0: the two differ
};

// Returns the ratio with an interval of 95 %; nothing with fewer than six common rounds.
std::optional<LogRatio> log_ratio(const Rounds& first, const Rounds& second);

// Returns the largest difference (natural logarithm of a ratio) that one artifact against its twin makes believable.
std::optional<double> noise_floor(const Rounds& first, const Rounds& twin);

// Returns the logarithm of the true ratio that such an interval leaves out 1 of in 95 of 100 comparisons.
double smallest_detectable(const LogRatio& ratio);

}  // namespace cross_backend
