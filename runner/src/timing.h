// Timing: one kind of operator in a profiled run; cross_backend/records.py, Timing, is the reference.
#pragma once

#include <string>
#include <vector>

namespace cross_backend {

struct Timing {
  std::string name;  // in the runtime's own vocabulary
  std::string kind;  // "operator", "delegated" inside a delegate that says so, "delegate" for the rest of its call, …
  int calls;         // per run
  double ms;         // per run, of all calls together
};

// Adds up the rows of one name and kind within each run; returns medians over the runs, most expensive first.
std::vector<Timing> typical(const std::vector<std::vector<Timing>>& runs);

}  // namespace cross_backend
