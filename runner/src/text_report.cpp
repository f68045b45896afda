#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "numbers.h"
#include "report.h"
#include "text.h"

namespace cross_backend {
namespace {

constexpr std::size_t kShownInputs = 8;

// Returns the inputs where they are few enough to read.
std::string input_line(const Bundle& bundle) {
  if (bundle.sample.inputs.size() != 1) return "";
  const auto values = to_doubles(read_tensor(bundle.sample.inputs.front()), kShownInputs + 1);
  return values.empty() || values.size() > kShownInputs ? "" : "📊 Input features: [" + numbers(values, "%g") + "]\n";
}

std::string line_of(const Result& result) {
  const auto& title = result.artifact.title;
  if (result.latency) {
    return "✅ " + title + ": " + milliseconds(result.mean_ms) + " ms avg, " + milliseconds(result.latency->value) +
           " ms median\n";
  }
  const bool is_fault = result.outcome != Outcome::kUnavailable && result.outcome != Outcome::kNotProved;
  const auto mark = is_fault ? "❌ " : "⚠️ ";
  return mark + title + ": " + name_of(result.outcome) + ": " + result.reason + "\n";
}

double over_first(const Result& result) { return result.ratio ? result.ratio->value : 1; }

std::vector<const Result*> ranked(const Panel& panel) {
  std::vector<const Result*> rows;
  for (const auto& result : panel.results) {
    if (result.latency && result.rank > 0) rows.push_back(&result);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Result* a, const Result* b) {
    const auto place = [](const Result* row) { return std::tuple(row->rank, over_first(*row), row->latency->value); };
    return place(a) < place(b);
  });
  return rows;
}

std::string medal(int rank, bool plain) {
  constexpr std::array<const char*, 3> medals{"🥇", "🥈", "🥉"};
  if (rank <= 3) return medals.at(static_cast<std::size_t>(rank) - 1);
  return plain ? std::to_string(rank) + "." : "📊";
}

// Returns what decides: how much longer it takes than the first.
std::string times(const Result& result) {
  if (!result.ratio || result.ratio->low == result.ratio->high) return "";
  return format("%.2f", result.ratio->value) + " × the first (" + format("%.2f", result.ratio->low) + " – " +
         format("%.2f", result.ratio->high) + "), ";
}

std::string ranking(const std::vector<const Result*>& rows, bool plain) {
  std::size_t widest = 24;
  for (const auto* row : rows) widest = std::max(widest, width(row->artifact.title));
  std::string text = "🏆 Performance Ranking (median, 95 % interval):\n" + std::string(50, '-') + "\n";
  for (const auto* row : rows) {
    std::size_t calls = 0;
    for (const auto& round : row->rounds) calls += round.size();
    text += medal(row->rank, plain) + " " + row->artifact.title +
            std::string(widest + 1 - width(row->artifact.title), ' ') + milliseconds(row->latency->value) + " ms, " +
            milliseconds(row->latency->low) + " – " + milliseconds(row->latency->high) + " ms, " + times(*row) +
            std::to_string(calls) + " runs, max error " + format("%.1e", row->comparison->max_rel);
    if (!row->head.empty()) text += " (output: " + numbers(row->head, "%.6f") + ")";
    text += "\n";
  }
  return text + "\n";
}

std::string tie(const std::vector<const Result*>& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size();) {
    std::vector<std::string> titles;
    const int rank = rows[i]->rank;
    for (; i < rows.size() && rows[i]->rank == rank; ++i) titles.push_back(rows[i]->artifact.title);
    if (titles.size() > 1) text += "   ⚖️ Tie at rank " + std::to_string(rank) + ": " + join(titles) + "\n";
  }
  return text;
}

std::string doubt(std::optional<double> found_from) {
  if (!found_from) return "   🎯 Too few calls to rank the artifacts.\n";
  return "   🎯 Resolution: a difference of " + format("%.1f", *found_from * 100) +
         " % or more is detected with 95 % power. Ties share a rank.\n";
}

std::string summary(const std::vector<const Result*>& rows, std::optional<double> found_from) {
  std::vector<std::string> first;
  for (const auto* row : rows) {
    if (row->rank == 1) first.push_back(row->artifact.title);
  }
  std::string text = "📈 Summary:\n   🏃 Fastest: " + join(first) + (first.size() > 1 ? " (a tie)" : "") + "\n";
  if (rows.back()->rank != 1) {
    text += "   ⚡ Speed improvement: " + format("%.1f", over_first(*rows.back())) + "x over slowest (" +
            rows.back()->artifact.title + ")\n";
  }
  text += tie(rows);
  if (rows.size() > 1) text += doubt(found_from);
  for (const auto* row : rows) {
    for (const auto& warning : row->warnings) text += "   ⚠️ " + row->artifact.title + ": " + warning + "\n";
  }
  return text + "\n";
}

std::string verdict(const Panel& panel, std::size_t ran) {
  const auto count = [&](Outcome outcome) {
    return std::count_if(panel.results.begin(), panel.results.end(),
                         [&](const Result& result) { return result.outcome == outcome; });
  };
  const auto of_all = " of " + std::to_string(panel.results.size()) + " artifacts";
  const auto wrong = count(Outcome::kMismatch), unproved = count(Outcome::kNotProved);
  if (wrong > 0) return "❌ " + std::to_string(wrong) + of_all + " gave wrong outputs.\n";
  if (panel.results.empty()) return "❌ The bundle holds no artifacts.\n";
  if (ran == 0 && unproved == 0) return "❌ Nothing could be run.\n";
  if (ran == 0) return "❌ " + std::to_string(unproved) + of_all + " ran, and their outputs prove nothing.\n";
  return "✅ " + std::to_string(ran) + of_all + " ran, and every output was right" +
         (unproved > 0 ? "; the outputs of " + std::to_string(unproved) + " more prove nothing.\n" : ".\n");
}

}  // namespace

int status_of(const Panel& panel) {
  const auto& rows = panel.results;
  const auto any = [&](auto is) { return std::any_of(rows.begin(), rows.end(), is); };
  if (any([](const Result& row) { return row.outcome == Outcome::kMismatch; })) return kFailed;
  if (any([](const Result& row) { return row.latency.has_value(); })) return kDone;
  return any([](const Result& row) { return row.outcome == Outcome::kNotProved; }) ? kNothingProved : kFailed;
}

std::string text_report(const Report& report, bool plain) {
  const auto& [bundle, panel, settings, machine] = report;
  std::string text = "🚀 cross-backend: " + bundle.model + "\n" + std::string(55, '=') + "\n" + input_line(bundle) +
                     "📊 " + machine.cpu + ", " + std::to_string(settings.threads) +
                     " thread(s) each; every output checked against the bundle's expectation\n\n";
  for (const auto& result : panel.results) text += line_of(result);
  if (!panel.results.empty()) text += "\n";
  const auto rows = ranked(panel);
  const auto ran = static_cast<std::size_t>(std::count_if(panel.results.begin(), panel.results.end(),
                                                          [](const Result& row) { return row.latency.has_value(); }));
  if (!rows.empty()) text += ranking(rows, plain) + summary(rows, panel.found_from);
  if (rows.size() < ran) {
    text += "⚠️ " + std::to_string(ran - rows.size()) + " without a rank: too few calls to compare.\n";
  }
  text += verdict(panel, ran);
  if (settings.profile && panel.results.size() == 1) text += profile_lines(panel.results.front());
  return shown_text(text, plain);
}

}  // namespace cross_backend
