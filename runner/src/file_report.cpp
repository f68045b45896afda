#include <algorithm>

#include "numbers.h"
#include "report.h"
#include "text.h"

namespace cross_backend {
namespace {

// Up to so many iterations are all shown; of more than those, so many.
constexpr std::size_t kMostIterations = 20, kShownIterations = 10;
constexpr std::size_t kShownRows = 30;  // of a profile

std::string iterations(const Samples& ns) {
  std::vector<std::string> shown;
  const auto count = ns.size() <= kMostIterations ? ns.size() : kShownIterations;
  for (std::size_t i = 0; i < count; ++i) shown.push_back(milliseconds(static_cast<double>(ns[i]) / 1e6));
  const auto text = "   iterations: " + join(shown);
  if (count == ns.size()) return text + " ms\n";
  const auto [least, most] = std::minmax_element(ns.begin(), ns.end());
  return text + ", … ms (the first " + std::to_string(count) + " of " + std::to_string(ns.size()) + "; min " +
         milliseconds(static_cast<double>(*least) / 1e6) + ", max " + milliseconds(static_cast<double>(*most) / 1e6) +
         "; --json has all)\n";
}

std::string table(const std::vector<Timing>& rows) {
  double total_ms = 0;
  std::size_t widest = 8, kinds = 4;
  for (const auto& row : rows) {
    total_ms += row.ms;
    widest = std::max(widest, width(row.name));
    kinds = std::max(kinds, width(row.kind));
  }
  const auto padded = [](const std::string& text, std::size_t size) {
    return text + std::string(size > width(text) ? size - width(text) : 0, ' ');
  };
  auto text = "   " + padded("Operator", widest) + "  " + padded("kind", kinds) + "  calls        ms   share\n";
  for (std::size_t i = 0; i < std::min(rows.size(), kShownRows); ++i) {
    const auto& row = rows[i];
    text += "   " + padded(row.name, widest) + "  " + padded(row.kind, kinds) +
            format("  %5d  %8s  %5.1f %%\n", row.calls, milliseconds(row.ms).c_str(),
                   total_ms > 0 ? 100 * row.ms / total_ms : 0);
  }
  if (rows.size() <= kShownRows) return text;
  return text + "   … and " + std::to_string(rows.size() - kShownRows) + " more; --json has all\n";
}

std::string error_of(double max_rel) { return max_rel > 0 ? format("%.1e", max_rel) : "0"; }

}  // namespace

std::string profile_lines(const Result& result) {
  std::string text;
  if (result.latency) text += iterations(all(result.rounds));
  if (!result.profile || !result.profile->fault.empty()) return text;
  const auto& [rows, runs, fault] = *result.profile;
  return text + "\n📊 Profile of " + std::to_string(runs) + " more run" + (runs > 1 ? "s" : "") +
         ", milliseconds per run (profiling slows the program down: compare these rows with each other, not with the "
         "latency above)\n" +
         table(rows);
}

std::string file_report(const Report& report, bool plain) {
  const auto& [bundle, panel, settings, machine] = report;
  const auto& result = panel.results.front();
  if (!result.latency) return "";
  const auto cases = bundle.further.size() + 1;
  std::size_t calls = 0;
  for (const auto& round : result.rounds) calls += round.size();
  auto text = "✅ " + bundle.model + " on " + result.artifact.target + ": " + std::to_string(cases) + " test case" +
              (cases > 1 ? "s are" : " is") + " right (largest error " + error_of(result.comparison->max_rel) +
              " of an element's scale)\n";
  if (!result.head.empty()) text += "   output: " + numbers(result.head, "%.6f") + "\n";
  for (const auto& warning : result.warnings) text += "   ⚠️ " + warning + "\n";
  text += "   ⏱️ " + milliseconds(result.latency->value) + " ms median (" + milliseconds(result.latency->low) + " – " +
          milliseconds(result.latency->high) + "), " + milliseconds(result.mean_ms) + " ms avg, " +
          std::to_string(calls) + " runs, " + std::to_string(settings.threads) +
          format(" thread(s); loaded in %.2f s\n", result.load_s.value_or(0));
  if (settings.profile) text += profile_lines(result);
  return shown_text(text, plain);
}

}  // namespace cross_backend
