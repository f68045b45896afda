// Reads one JSON document and prints what this program's parts make of it, for a test that asks the Python package the
// same. Its keys say which part: "rounds" ([[[ns, …], …], …]), "digest" (a path), "steady" ([[value, …], …]), "warm_up"
// ([[ns, …], …]), "blocks" ([[estimate_ms, calls, seconds], …]), "printable" ([[byte, …], …]), or "expected" and
// "outputs" (of each input), "scale", "rounding", "tolerance" and perhaps "mean_tolerance".
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "blocks.h"
#include "compare.h"
#include "digest.h"
#include "ranking.h"
#include "ratio.h"
#include "session.h"
#include "statistics.h"
#include "steady.h"
#include "text.h"

namespace cross_backend {

// This program runs nothing.
const std::vector<Runtime>& runtimes() {
  static const std::vector<Runtime> none;
  return none;
}

}  // namespace cross_backend

namespace {

using namespace cross_backend;
using nlohmann::json;

std::vector<Tensor> tensors(const json& rows) {
  std::vector<Tensor> read;
  for (const auto& row : rows) read.push_back({row["dtype"], row["shape"], row["data"]});
  return read;
}

std::vector<Tensors> groups(const json& rows) {
  std::vector<Tensors> read;
  for (const auto& row : rows) read.push_back(tensors(row));
  return read;
}

json compare(const json& request) {
  const Limits limits{request["tolerance"], request.value("mean_tolerance", Limits{}.mean)};
  const Expectation expected{groups(request["expected"]), tensors(request["scale"]),
                             tensors(request.value("rounding", json::array()))};
  const auto result = compare_outputs(expected, groups(request["outputs"]), limits);
  return {{"max_abs", result.max_abs}, {"max_rel", result.max_rel}, {"sqnr_db", result.sqnr_db},
          {"verdict", result.right},   {"reason", result.reason},   {"unproved", result.unproved}};
}

json statistics(const std::vector<Rounds>& measured) {
  json latencies = json::array();
  for (const auto& rounds : measured) {
    const auto latency = latency_ms(rounds);
    latencies.push_back({latency.value, latency.low, latency.high, mean_ms(rounds)});
  }
  const auto floor = noise_floor(measured.front(), measured.back());
  const auto ranking = rank(measured, std::pair(measured.front(), measured.back()));
  json ratios = json::array();
  for (const auto& one : ranking.ratios) ratios.push_back(one ? json{one->value, one->low, one->high} : json());
  return {{"latencies", latencies},
          {"floor", floor ? json(*floor) : json()},
          {"ranks", ranking.ranks},
          {"ratios", ratios},
          {"found_from", ranking.found_from ? json(*ranking.found_from) : json()}};
}

json steady(const std::vector<double>& values) {
  const auto index = steady_from(values);
  return index ? json(*index) : json();
}

// Takes the durations of calls to come from a series, which must be long enough.
json warm_up(const Samples& series) {
  std::vector<int> asked;
  auto next = series.begin();
  const auto [estimate_ms, warning] = until_steady([&](int calls) {
    asked.push_back(calls);
    const auto first = next;
    next += std::min<std::ptrdiff_t>(calls, series.end() - next);
    return Samples(first, next);
  });
  return {{"estimate_ms", estimate_ms}, {"warning", warning}, {"asked", asked}};
}

json printable_bytes(const std::vector<std::uint8_t>& bytes) {
  const auto shown = printable({bytes.begin(), bytes.end()});
  return std::vector<std::uint8_t>(shown.begin(), shown.end());
}

// Returns what a function makes of each element.
template <typename Element, typename Function>
json each(const json& elements, Function function) {
  json given = json::array();
  for (const auto& element : elements) given.push_back(function(element.get<Element>()));
  return given;
}

json answer(const json& request) {
  if (request.contains("digest")) return digest_path(request["digest"].get<std::string>());
  if (request.contains("rounds")) return statistics(request["rounds"]);
  if (request.contains("steady")) return each<std::vector<double>>(request["steady"], steady);
  if (request.contains("warm_up")) return each<Samples>(request["warm_up"], warm_up);
  if (request.contains("printable")) return each<std::vector<std::uint8_t>>(request["printable"], printable_bytes);
  if (request.contains("blocks")) {
    return each<json>(request["blocks"], [](const json& row) { return plan_blocks(row[0], row[1], row[2]); });
  }
  return compare(request);
}

}  // namespace

int main() { std::cout << answer(json::parse(std::cin)) << "\n"; }
