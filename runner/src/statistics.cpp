#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace cross_backend {
namespace {

constexpr double kMissed = 0.05;  // how often an interval of 95 % leaves out the median

// The exact order-statistic interval of a population median: from the k-th smallest to the k-th largest of n values,
// which holds it with probability 1 − 2·P(Bin(n, ½) < k) (David & Nagaraja, Order Statistics, 3rd ed., §7.1).
std::pair<double, double> median_interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  double term = std::ldexp(1.0, -static_cast<int>(n));  // P(Bin(n, ½) = k)
  double tail = 0;
  std::size_t k = 0;
  while (k < (n - 1) / 2) {
    tail += term;
    if (2 * tail > kMissed) break;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  const auto low = k > 0 ? k - 1 : 0;
  return {values[low], values[n - 1 - low]};
}

}  // namespace

Samples all(const Rounds& rounds) {
  Samples samples;
  for (const auto& round : rounds) samples.insert(samples.end(), round.begin(), round.end());
  return samples;
}

Interval latency_ms(const Rounds& rounds) {
  std::vector<double> medians;
  for (const auto& round : rounds) {
    if (!round.empty()) medians.push_back(median(round));
  }
  const double value = median(all(rounds));
  const auto [low, high] = median_interval(medians);
  return {value / 1e6, std::min(low, value) / 1e6, std::max(high, value) / 1e6};
}

double mean_ms(const Rounds& rounds) {
  const auto samples = all(rounds);
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size()) / 1e6;
}

}  // namespace cross_backend
