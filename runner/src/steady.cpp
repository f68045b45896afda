#include "steady.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

namespace cross_backend {
namespace {

constexpr std::size_t kFewestCalls = 30;  // a shorter series cannot be judged
constexpr double kSameLevel = 0.02;       // levels that differ by less, relatively, are the same
constexpr double kSteadyShare = 1.0 / 3;  // the least share of the series that must be steady
constexpr double kPenalty = 6;            // what a change of level must explain, · log(batches) · noise variance
constexpr int kFirstSeries = 50;          // calls; each further series doubles all calls
constexpr std::int64_t kLongestNs = 2'000'000'000;  // of warm-up
constexpr std::size_t kMostCalls = 12'800;          // of warm-up
constexpr std::size_t kMostJudged = 300;            // of a longer series, the medians of so many groups are judged

using Segment = std::pair<std::size_t, std::size_t>;  // from, to (exclusive)

// Returns the median of values[begin, end).
template <typename T>
double median_of(const std::vector<T>& values, std::size_t begin, std::size_t end) {
  using Difference = typename std::vector<T>::difference_type;
  return median(
      std::vector<T>(values.begin() + static_cast<Difference>(begin), values.begin() + static_cast<Difference>(end)));
}

// Returns the medians of groups of neighbours; what does not fill one is left out at the beginning.
template <typename T>
std::vector<double> medians_of(const std::vector<T>& values, std::size_t size) {
  std::vector<double> medians;
  for (auto i = values.size() % size; i < values.size(); i += size) medians.push_back(median_of(values, i, i + size));
  return medians;
}

// Returns the standard deviation of single values around their level, from the differences of neighbours.
double scatter(const std::vector<double>& values) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < values.size(); ++i) steps.push_back(values[i] - values[i - 1]);
  const double middle = median(steps);
  for (auto& step : steps) step = std::abs(step - middle);
  return 1.4826 * median(steps) / std::sqrt(2.0);
}

// Cuts into segments of constant level at the least Σ (value − level)² + penalty a segment, by dynamic programming.
// Each segment has two values at least; the first and the last may have one.
std::vector<Segment> cut(const std::vector<double>& values, double penalty) {
  const auto count = values.size();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(count);
  std::vector<double> sums{0}, squares{0};  // of what is centred: sums of squares lose digits far from zero
  for (const double value : values) {
    sums.push_back(sums.back() + (value - mean));
    squares.push_back(squares.back() + (value - mean) * (value - mean));
  }
  std::vector<double> cost(count + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> before(count + 1);
  cost[0] = 0;
  for (std::size_t end = 1; end <= count; ++end) {
    const auto starts = std::max<std::size_t>(end == count ? end : end - 1, 1);
    for (std::size_t start = 0; start < starts; ++start) {
      const double total = sums[end] - sums[start];
      const double fit = squares[end] - squares[start] - total * total / static_cast<double>(end - start);
      const double whole = cost[start] + fit + penalty;
      if (start == 0 || whole < cost[end]) {
        cost[end] = whole;
        before[end] = start;
      }
    }
  }
  std::vector<Segment> segments;
  for (auto end = count; end > 0; end = before[end]) segments.emplace_back(before[end], end);
  std::reverse(segments.begin(), segments.end());
  return segments;
}

// Judges a series whose length does not matter to the work.
std::optional<std::size_t> steady_call(const Samples& calls) {
  const auto size = (calls.size() + kMostJudged - 1) / kMostJudged;
  const auto found = steady_from(medians_of(calls, std::max<std::size_t>(size, 1)));
  return found && *found ? *found * size + calls.size() % size : found;
}

std::string with_commas(std::size_t number) {
  auto text = std::to_string(number);
  for (auto place = text.size(); place > 3;) text.insert(place -= 3, ",");
  return text;
}

}  // namespace

std::optional<std::size_t> steady_from(const std::vector<double>& values) {
  if (values.size() < kFewestCalls) return std::nullopt;
  const std::size_t size = values.size() >= 60 ? 5 : 3;
  const auto batches = medians_of(values, size);
  const double level = median(batches);
  const double same = std::max(kSameLevel * level, 2 * scatter(values));
  const double noise = std::max(scatter(batches), kSameLevel / 4 * level);
  const auto segments = cut(batches, kPenalty * std::log(static_cast<double>(batches.size())) * noise * noise);
  const double last = median_of(batches, segments.back().first, segments.back().second);
  auto start = segments.back().first;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    if (std::abs(median_of(batches, segment->first, segment->second) - last) > same) break;
    start = segment->first;
  }
  const auto index = start ? values.size() % size + start * size : 0;
  const auto middle = index + (values.size() - index) / 2;
  const bool is_short = static_cast<double>(values.size() - index) < kSteadyShare * static_cast<double>(values.size());
  const double change = median_of(values, index, middle) - median_of(values, middle, values.size());
  if (is_short || std::abs(change) > same) return std::nullopt;
  return index;
}

WarmUp until_steady(const std::function<Samples(int calls)>& take) {
  auto calls = take(kFirstSeries);
  const auto spent_ns = [&] { return std::accumulate(calls.begin(), calls.end(), std::int64_t{0}); };
  auto steady = steady_call(calls);
  while (!steady && spent_ns() < kLongestNs && calls.size() < kMostCalls) {
    const auto more = take(static_cast<int>(calls.size()));
    calls.insert(calls.end(), more.begin(), more.end());
    steady = steady_call(calls);
  }
  if (steady) return {median_of(calls, *steady, calls.size()) / 1e6, ""};
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.2g", static_cast<double>(spent_ns()) / 1e9);
  const bool judged = calls.size() >= kFewestCalls;
  return {median_of(calls, calls.size() / 2, calls.size()) / 1e6,
          judged ? "not steady after " + with_commas(calls.size()) + " calls, " + seconds + " s, of warm-up" : ""};
}

}  // namespace cross_backend
