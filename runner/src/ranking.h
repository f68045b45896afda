// Ranking: artifacts in order, and who differs from whom; measure/ranking.py is the reference.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "statistics.h"

namespace cross_backend {

struct Ranking {
  // From 1; equal for artifacts without a detectable difference. 0: too few rounds to compare.
  std::vector<int> ranks;
  std::vector<std::optional<Interval>> ratios;  // latency over that of the first; nothing with too few common rounds
  std::optional<double> found_from;             // relative difference detected with 95 % power, of pairs not far apart
};

// Ranks what was measured. `twins` are one of these artifacts in two processes, where there are any.
Ranking rank(const std::vector<Rounds>& measured, const std::optional<std::pair<Rounds, Rounds>>& twins);

}  // namespace cross_backend
