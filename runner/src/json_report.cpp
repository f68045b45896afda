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
  ordered_json found{{"workload", bundle.model},
                     {"name", result.artifact.name},
                     {"target", result.artifact.target},
                     {"title", result.artifact.title},
                     {"outcome", name_of(result.outcome)},
                     {"rank", result.rank && !bundle.is_bundled ? ordered_json(result.rank) : ordered_json()},
                     {"ratio", bundle.is_bundled ? ordered_json() : ratio(result)},
                     {"latency_ms", latency(result)},
                     {"error", error(result)},
                     {"coverage", or_null(result.artifact.coverage)},
                     {"size_bytes", result.artifact.size_bytes},
                     {"export_s", or_null(result.artifact.export_s)},
                     {"load_s", or_null(result.load_s)},
                     {"warnings", result.warnings},
                     {"reason", result.reason.empty() ? ordered_json() : ordered_json(result.reason)}};
  if (bundle.is_bundled) found["test_cases"] = bundle.further.size() + 1;
  return found;
}

// Adds what --profile found of the only artifact, with the keys of `cross-backend run --json`.
void add_profile(ordered_json& document, const Result& result) {
  ordered_json iterations_ms = ordered_json::array();
  for (const auto ns : all(result.rounds)) iterations_ms.push_back(static_cast<double>(ns) / 1e6);
  document["iterations_ms"] = iterations_ms;
  document["profile_runs"] = 0;
  document["profile"] = nullptr;
  if (!result.profile || !result.profile->fault.empty()) return;
  document["profile_runs"] = result.profile->runs;
  double total_ms = 0;
  for (const auto& timing : result.profile->rows) total_ms += timing.ms;
  auto& rows = document["profile"] = ordered_json::array();
  for (const auto& timing : result.profile->rows) {
    rows.push_back({{"name", timing.name},
                    {"kind", timing.kind},
                    {"calls", timing.calls},
                    {"ms", timing.ms},
                    {"share", total_ms > 0 ? timing.ms / total_ms : 0}});
  }
}

}  // namespace

std::string unverified_document(const std::string& model, const std::string& target, const std::vector<double>& output,
                                const std::string& reason) {
  const ordered_json document{{"schema", kSchema}, {"workload", model}, {"target", target},
                              {"output", output},  {"verified", false}, {"reason", reason}};
  return document.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

std::string json_report(const Report& report) {
  const auto& [bundle, panel, settings, machine] = report;
  ordered_json document{
      {"schema", kSchema},
      {"runner", RUNNER_VERSION},
      {"machine",
       {{"cpu", machine.cpu},
        {"system", machine.system},
        {"arch", machine.arch},
        {"usable_cpus", machine.usable_cpus},
        {"memory_bytes", machine.memory_bytes ? ordered_json(machine.memory_bytes) : ordered_json()},
        {"release", machine.release.empty() ? ordered_json() : ordered_json(machine.release)}}},
      {"place", "local"},
      {"model", bundle.model},
      {"noise_floor", or_null(panel.noise_floor)},
      {"found_from", or_null(panel.found_from)},
      {"settings",
       {{"num_runs", settings.num_runs},
        {"warmup", settings.warmup},
        {"seconds", settings.seconds},
        {"threads", settings.threads}}},
      {"results", ordered_json::array()},
  };
  for (const auto& result : panel.results) document["results"].push_back(row(bundle, result));
  if (settings.profile && panel.results.size() == 1) add_profile(document, panel.results.front());
  return document.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace cross_backend
