// Steady state: from which call on a fresh process runs at the level that it stays at. docs/measurement.md explains it;
// measure/steady.py and trial.py are the reference.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "statistics.h"

namespace cross_backend {

// Returns the index of the first of some calls, in order from the first of the process, that is steady; nothing where
// none is, or where there are too few to judge.
std::optional<std::size_t> steady_from(const std::vector<double>& values);

struct WarmUp {
  double estimate_ms;   // the median of a call when it was warm
  std::string warning;  // why it is not known to be steady; empty where it is
};

// Calls until the durations are steady, for two seconds at most; `take` times so many calls, or fewer.
WarmUp until_steady(const std::function<Samples(int calls)>& take);

}  // namespace cross_backend
