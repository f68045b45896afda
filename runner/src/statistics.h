// Statistics of interleaved measurements; docs/measurement.md explains them, measure/statistics.py is the reference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace cross_backend {

using Samples = std::vector<std::int64_t>;  // nanoseconds, in order
using Rounds = std::vector<Samples>;        // by visit; a visit without calls is empty

struct Interval {
  double value;
  double low;
  double high;
};

// The smallest noise floor that is ever claimed: two processes of one program differ by their memory layout alone.
inline constexpr double kResolution = 0.055;
// With fewer rounds, the range of all values holds the median with less than 95 % confidence: 1 − 2·0.5^6 = 96.9 %.
inline constexpr int kMinRounds = 6;

// Gives the median; takes the values by copy to sort them, and there is at least one.
template <typename T>
double median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  const auto upper = static_cast<double>(values[middle]);
  return values.size() % 2 ? upper : (static_cast<double>(values[middle - 1]) + upper) / 2;
}

// Gives the median of all samples and the 95 % order-statistic interval of the rounds' medians, in milliseconds.
// At least one round must have samples.
Interval latency_ms(const Rounds& rounds);

// Gives the mean of all samples in milliseconds.
double mean_ms(const Rounds& rounds);

// Gives the median over rounds of first / second with its interval; nothing with fewer than six common rounds.
std::optional<Interval> paired_ratio(const Rounds& first, const Rounds& second);

// Gives the largest difference (natural logarithm of a ratio) that one artifact against its twin makes believable.
std::optional<double> noise_floor(const Rounds& first, const Rounds& twin);

// Ranks by median, 1 the fastest. What cannot be told apart from the leader of a group shares its rank.
std::vector<int> rank(const std::vector<Rounds>& measured, std::optional<double> floor);

}  // namespace cross_backend
