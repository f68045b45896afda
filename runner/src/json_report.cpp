#include <nlohmann/json.hpp>

#include "report.h"

namespace cross_backend {
namespace {

using nlohmann::ordered_json;

constexpr int kSchema = 1;  // of cross_backend.records

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json ratio(const Result& result) {
  if (!result.ratio) return nullptr;
  return {{"value", result.ratio->value}, {"low", result.ratio->low}, {"high", result.ratio->high}};
}

ordered_json latency(const Result& result) {
  if (!result.latency) return nullptr;
  std::size_t calls = 0;
  for (const auto& round : result.rounds) calls += round.size();
  return {{"median", result.latency->value},
          {"low", result.latency->low},
          {"high", result.latency->high},
          {"mean", result.mean_ms},
          {"n", calls}};
}

// Infinite and undefined numbers become null.
ordered_json error(const Result& result) {
  if (!result.comparison) return nullptr;
  const auto& comparison = *result.comparison;
  return {{"max_abs", comparison.max_abs},
          {"max_rel", comparison.max_rel},
          {"sqnr_db", comparison.sqnr_db},
          {"tolerance", comparison.tolerance},
          {"verdict", comparison.right},
          {"reason", comparison.reason.empty() ? ordered_json() : ordered_json(comparison.reason)},
          {"unproved", comparison.unproved.empty() ? ordered_json() : ordered_json(comparison.unproved)}};
}

ordered_json row(const Bundle& bundle, const Result& result) {
  return {{"workload", bundle.model},
          {"name", result.artifact.name},
          {"target", result.artifact.target},
          {"title", result.artifact.title},
          {"outcome", name_of(result.outcome)},
          {"rank", result.rank ? ordered_json(result.rank) : ordered_json()},
          {"ratio", ratio(result)},
          {"latency_ms", latency(result)},
          {"error", error(result)},
          {"coverage", or_null(result.artifact.coverage)},
          {"size_bytes", result.artifact.size_bytes},
          {"export_s", or_null(result.artifact.export_s)},
          {"load_s", or_null(result.load_s)},
          {"warnings", result.warnings},
          {"reason", result.reason.empty() ? ordered_json() : ordered_json(result.reason)}};
}

}  // namespace

std::string json_report(const Report& report) {
  const auto& [bundle, panel, settings, machine] = report;
  ordered_json document{
      {"schema", kSchema},
      {"runner", RUNNER_VERSION},
      {"machine",
       {{"cpu", machine.cpu},
        {"system", machine.system},
        {"arch", machine.arch},
        {"usable_cpus", machine.usable_cpus}}},
      {"model", bundle.model},
      {"noise_floor", or_null(panel.noise_floor)},
      {"found_from", or_null(panel.found_from)},
      {"settings",
       {{"iterations", settings.iterations},
        {"warmup", settings.warmup},
        {"seconds", settings.seconds},
        {"threads", settings.threads}}},
      {"results", ordered_json::array()},
  };
  for (const auto& result : panel.results) document["results"].push_back(row(bundle, result));
  return document.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace cross_backend
