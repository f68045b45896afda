#include "ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ratio.h"

namespace cross_backend {
namespace {

constexpr double kClear = 0.999;  // least confidence at which a pair counts as clearly apart
constexpr double kAsked = 0.08;   // relative difference to be detected with 95 % power; beyond it two are far apart

// The confidence of each of so many intervals with which all together are right in 95 % (Bonferroni).
double joint_confidence(std::size_t pairs) {
  return 1 - (1 - kConfidence) / static_cast<double>(std::max<std::size_t>(pairs, 1));
}

// The ratios of a panel's pairs. All verdicts together are right in 95 %, by Holm's step-down rule (Scand. J. Statist.
// 6, 1979): pairs that are clearly apart are so at Bonferroni's level over all pairs or a stricter one, so the level of
// the rest is Bonferroni's over the rest.
class Pairs {
 public:
  Pairs(const std::vector<Rounds>& measured, double floor) : measured_(measured), floor_(floor) {
    const auto count = measured.size();
    strict_ = std::max(kClear, joint_confidence(count * (count - 1) / 2));
    std::size_t open = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = i + 1; k < count; ++k) {
        const auto ratio = log_ratio(measured[i], measured[k]);
        open += ratio && ratio->at(strict_, floor).apart() ? 0 : 1;
      }
    }
    confidence_ = joint_confidence(open);
  }

  std::optional<LogRatio> operator()(std::size_t first, std::size_t second) const {
    return decided(measured_[first], measured_[second]);
  }

  std::optional<LogRatio> decided(const Rounds& first, const Rounds& second) const {
    const auto ratio = log_ratio(first, second);
    return ratio ? std::optional(ratio->at(confidence_, floor_)) : std::nullopt;
  }

  // Whether two differ, at the strict level, by more than the difference that shall be found.
  bool far_apart(std::size_t first, std::size_t second) const {
    const auto ratio = log_ratio(measured_[first], measured_[second]);
    if (!ratio) return false;
    const auto strict = ratio->at(strict_, floor_);
    return std::max(strict.low(), -strict.high()) > std::log1p(kAsked);
  }

  // By medians where they share too few rounds.
  bool slower(std::size_t first, std::size_t second) const {
    if (const auto ratio = (*this)(first, second)) return ratio->value > 0;
    return median(all(measured_[first])) > median(all(measured_[second]));
  }

 private:
  const std::vector<Rounds>& measured_;
  double floor_;
  double strict_ = 0, confidence_ = 0;
};

// By insertion: rounds that only some share may put three artifacts into a circle, which std::sort does not allow.
std::vector<std::size_t> in_order(const Pairs& pairs, std::size_t count) {
  std::vector<std::size_t> order;
  for (std::size_t key = 0; key < count; ++key) {
    auto place = order.end();
    while (place != order.begin() && pairs.slower(*(place - 1), key)) --place;
    order.insert(place, key);
  }
  return order;
}

Interval interval(const LogRatio& ratio) {
  return {std::exp(ratio.value), std::exp(ratio.low()), std::exp(ratio.high())};
}

}  // namespace

Ranking rank(const std::vector<Rounds>& measured, const std::optional<std::pair<Rounds, Rounds>>& twins) {
  const double floor = twins ? noise_floor(twins->first, twins->second).value_or(0) : 0;
  const Pairs pairs(measured, floor);
  const auto order = in_order(pairs, measured.size());
  Ranking ranking{std::vector<int>(order.size()), std::vector<std::optional<Interval>>(order.size()), std::nullopt};
  std::vector<std::optional<LogRatio>> near;
  std::size_t leader = 0;
  int ranked = 0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto key = order[place];
    const auto ratio = place > 0 ? pairs(key, leader) : std::nullopt;
    const bool leads = place == 0 || (ratio && ratio->apart() && ratio->value > 0);
    if (place > 0 && !pairs.far_apart(key, leader)) near.push_back(ratio);
    if (leads) leader = key;
    if (leads || ratio) {
      ++ranked;
      ranking.ranks[key] = leads ? ranked : ranking.ranks[leader];
    }
    const auto to_first = place > 0 ? pairs(key, order.front()) : LogRatio{0, 0, 0};
    if (to_first) ranking.ratios[key] = interval(*to_first);
  }
  if (ranked == 1 && order.size() > 1) ranking.ranks.assign(order.size(), 0);  // nothing was compared
  const bool known = std::any_of(near.begin(), near.end(), [](const auto& ratio) { return ratio.has_value(); });
  if (!known && twins && order.size() > 1) near.push_back(pairs.decided(twins->first, twins->second));
  for (const auto& ratio : near) {
    if (ratio) ranking.found_from = std::max(ranking.found_from.value_or(0), std::expm1(smallest_detectable(*ratio)));
  }
  return ranking;
}

}  // namespace cross_backend
