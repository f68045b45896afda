#include "ratio.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace cross_backend {
namespace {

constexpr double kCalm = 0.25;  // share of the calls that count, the fastest: what disturbs a call makes it slower
constexpr double kResolution = 0.055;          // of two processes of one program, at the 95th percentile
constexpr double kNormal = 1.959963984540054;  // quantile 0.975 of the normal distribution
constexpr double kPower = 0.975;               // quantile of t that the difference lies beyond the threshold
constexpr double kWidest = 700;                // beyond, exp overflows

// Returns the quantile of Student's t with four degrees of freedom, which is what is believed of one launch
// (Shaw, J. Comput. Finance 9(4), 2006, §4.2).
double student_t4(double probability) {
  const double root = std::sqrt(4 * probability * (1 - probability));
  return 2 * std::sqrt(std::cos(std::acos(root) / 3) / root - 1);
}

std::size_t share_of(std::size_t count) {
  return static_cast<std::size_t>(std::ceil(static_cast<double>(count) * kCalm));
}

struct Calm {
  double mean;                // of the fastest calls, nanoseconds
  std::vector<double> moved;  // how much each round moves it, relatively
};

// The mean of the fastest share p is, but for a constant, the mean over all calls of min(call, q)/p with q the slowest
// call that counts (Tukey & McLaughlin, Sankhyā A 25, 1963). The mean of a round is one observation.
Calm calm_of(const Rounds& rounds) {
  auto calls = all(rounds);
  const auto counted = share_of(calls.size());
  const auto last = calls.begin() + static_cast<Samples::difference_type>(counted - 1);
  std::nth_element(calls.begin(), last, calls.end());
  const auto slowest = *last;
  const double sum = std::accumulate(calls.begin(), last + 1, 0.0);
  const double mean = std::max(sum / static_cast<double>(counted), 1.0);  // a coarse clock may give 0 ns
  const double share = static_cast<double>(counted) / static_cast<double>(calls.size());
  Calm calm{mean, {}};
  for (const auto& round : rounds) {
    double clipped = 0;
    for (const auto call : round) clipped += static_cast<double>(std::min(call, slowest));
    calm.moved.push_back(clipped / static_cast<double>(round.size()) / (mean * share));
  }
  return calm;
}

// Returns the standard error of a difference of calm means, from what each round moves it by. As many observations
// count as there are calm rounds: with few rounds it would be too small.
double error_of(const std::vector<double>& steps) {
  const auto count = static_cast<double>(steps.size());
  const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / count;
  double squares = 0;
  for (const double step : steps) squares += (step - mean) * (step - mean);
  const auto calm = static_cast<double>(std::max<std::size_t>(share_of(steps.size()), 2));
  return std::sqrt(squares / (count - 1)) * std::sqrt(calm / (calm - 1) / count);
}

}  // namespace

LogRatio LogRatio::at(double confidence, double floor) const {
  const double half = std::min(student_t4((1 + confidence) / 2) * error, kWidest);
  return {value, std::max(half, floor), error};
}

std::optional<LogRatio> log_ratio(const Rounds& first, const Rounds& second) {
  Rounds mine, theirs;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].empty() || second[i].empty()) continue;
    mine.push_back(first[i]);
    theirs.push_back(second[i]);
  }
  if (mine.size() < kMinRounds) return std::nullopt;
  const auto one = calm_of(mine), other = calm_of(theirs);
  std::vector<double> steps;
  for (std::size_t i = 0; i < mine.size(); ++i) steps.push_back(one.moved[i] - other.moved[i]);
  const double error = std::hypot(kResolution / kNormal, error_of(steps));
  return LogRatio{std::log(one.mean / other.mean), 0, error}.at(kConfidence, 0);
}

std::optional<double> noise_floor(const Rounds& first, const Rounds& twin) {
  const auto ratio = log_ratio(first, twin);
  if (!ratio) return std::nullopt;
  return std::max(std::abs(ratio->low()), std::abs(ratio->high()));
}

double smallest_detectable(const LogRatio& ratio) { return ratio.half_width + student_t4(kPower) * ratio.error; }

}  // namespace cross_backend
