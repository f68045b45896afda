// Reads one JSON document and gives what this program's statistics and comparison make of it, for a test that asks the
// Python package the same: {"rounds": [[[ns, …], …], …]}, {"digest": a path}, {"printable": [[byte, …], …]}, or
// {"expected": […], "outputs": […], "tolerance": …}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "compare.h"
#include "digest.h"
#include "statistics.h"
#include "text.h"

namespace {

using namespace cross_backend;
using nlohmann::json;

std::vector<Tensor> tensors(const json& rows) {
  std::vector<Tensor> read;
  for (const auto& row : rows) read.push_back({row["dtype"], row["shape"], row["data"]});
  return read;
}

json compare(const json& request) {
  const auto result = compare_outputs(tensors(request["expected"]), tensors(request["outputs"]), request["tolerance"]);
  return {
      {"max_abs", result.max_abs}, {"max_rel", result.max_rel}, {"sqnr_db", result.sqnr_db}, {"verdict", result.right}};
}

json statistics(const std::vector<Rounds>& measured) {
  json latencies = json::array();
  for (const auto& rounds : measured) {
    const auto latency = latency_ms(rounds);
    latencies.push_back({latency.value, latency.low, latency.high, mean_ms(rounds)});
  }
  const auto floor = noise_floor(measured.front(), measured.back());
  return {{"latencies", latencies}, {"floor", floor ? json(*floor) : json()}, {"ranks", rank(measured, floor)}};
}

}  // namespace

int main() {
  const auto request = json::parse(std::cin);
  if (request.contains("digest")) {
    std::cout << json(digest_path(request["digest"].get<std::string>())) << "\n";
  } else if (request.contains("printable")) {
    json shown = json::array();
    for (const auto& row : request["printable"]) {
      const auto bytes = row.get<std::vector<std::uint8_t>>();
      shown.push_back(printable({bytes.begin(), bytes.end()}));
    }
    std::cout << shown << "\n";
  } else {
    std::cout << (request.contains("rounds") ? statistics(request["rounds"]) : compare(request)) << "\n";
  }
}
