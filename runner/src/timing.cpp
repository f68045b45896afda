#include "timing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "statistics.h"

namespace cross_backend {
namespace {

struct Row {
  std::vector<int> calls;  // of each run
  std::vector<double> ms;
};

int median_high(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::vector<Timing> typical(const std::vector<std::vector<Timing>>& runs) {
  std::map<std::pair<std::string, std::string>, Row> rows;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (const auto& timing : runs[run]) {
      auto& row = rows[{timing.name, timing.kind}];
      row.calls.resize(runs.size());
      row.ms.resize(runs.size());
      row.calls[run] += timing.calls;
      row.ms[run] += timing.ms;
    }
  }
  std::vector<Timing> found;
  for (const auto& [key, row] : rows) {
    const Timing timing{key.first, key.second, median_high(row.calls), median(row.ms)};
    if (timing.calls > 0) found.push_back(timing);
  }
  std::stable_sort(found.begin(), found.end(), [](const Timing& a, const Timing& b) { return a.ms > b.ms; });
  return found;
}

}  // namespace cross_backend
