// Figures of one artifact; docs/measurement.md explains them, measure/statistics.py is the reference.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cross_backend {

using Samples = std::vector<std::int64_t>;  // nanoseconds, in order
using Rounds = std::vector<Samples>;        // by block; a block without calls is empty

struct Interval {
  double value;
  double low;
  double high;
};

// Returns the median; takes the values by copy to sort them, and there is at least one.
template <typename T>
double median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  const auto upper = static_cast<double>(values[middle]);
  return values.size() % 2 ? upper : (static_cast<double>(values[middle - 1]) + upper) / 2;
}

// Returns the samples of all rounds, in order.
Samples all(const Rounds& rounds);

// Returns the median of all samples and the 95 % order-statistic interval of the rounds' medians, in milliseconds.
// At least one round must have samples.
Interval latency_ms(const Rounds& rounds);

// Returns the mean of all samples in milliseconds.
double mean_ms(const Rounds& rounds);

}  // namespace cross_backend
