// Blocks: how many calls of an artifact are timed in each round.
#pragma once

#include <vector>

namespace cross_backend {

inline constexpr int kRounds = 30;

// Returns the timed calls of each round: `most_calls` in all, fewer where `seconds` have no room for them, six at
// least. Slow artifacts do not take part in every round. Those of two artifacts are nested, so that the one that takes
// part in fewer shares all of its rounds with the other (launch.py, plan_blocks).
std::vector<int> plan_blocks(double estimate_ms, int most_calls, double seconds);

}  // namespace cross_backend
