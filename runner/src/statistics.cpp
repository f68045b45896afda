#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace cross_backend {
namespace {

constexpr double kConfidence = 0.95;

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
    if (2 * tail > 1 - kConfidence) break;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  const auto low = k > 0 ? k - 1 : 0;
  return {values[low], values[n - 1 - low]};
}

Samples all(const Rounds& rounds) {
  Samples samples;
  for (const auto& round : rounds) samples.insert(samples.end(), round.begin(), round.end());
  return samples;
}

bool slower(const Rounds& first, const Rounds& leader, double floor) {
  const auto ratio = paired_ratio(first, leader);
  return ratio && (std::log(ratio->low) > floor || std::log(ratio->high) < -floor);
}

}  // namespace

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

std::optional<Interval> paired_ratio(const Rounds& first, const Rounds& second) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].empty() || second[i].empty()) continue;
    ratios.push_back(std::max(median(first[i]), 1.0) / std::max(median(second[i]), 1.0));  // a coarse clock gives 0
  }
  if (ratios.size() < kMinRounds) return std::nullopt;
  const auto [low, high] = median_interval(ratios);
  return Interval{median(ratios), low, high};
}

std::optional<double> noise_floor(const Rounds& first, const Rounds& twin) {
  const auto ratio = paired_ratio(first, twin);
  if (!ratio) return std::nullopt;
  return std::max({kResolution, std::abs(std::log(ratio->low)), std::abs(std::log(ratio->high))});
}

std::vector<int> rank(const std::vector<Rounds>& measured, std::optional<double> floor) {
  std::vector<double> medians;
  for (const auto& rounds : measured) medians.push_back(median(all(rounds)));
  std::vector<std::size_t> order(measured.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return medians[a] < medians[b]; });
  std::vector<int> ranks(measured.size());
  std::size_t leader = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto key = order[place];
    const bool leads = place == 0 || slower(measured[key], measured[leader], floor.value_or(kResolution));
    if (leads) leader = key;
    ranks[key] = leads ? static_cast<int>(place) + 1 : ranks[leader];
  }
  return ranks;
}

}  // namespace cross_backend
