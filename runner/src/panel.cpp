#include "panel.h"

#include <algorithm>
#include <random>
#include <utility>

#include "ranking.h"
#include "ratio.h"
#include "steady.h"
#include "visits.h"

namespace cross_backend {
namespace {

constexpr double kWarmSeriesSeconds = 0.5;  // most seconds of one series of the warm-up
// Faster artifacts get untimed calls at the start of each visit: caches are cold after the others' turns.
constexpr double kWarmBelowMs = 50;
constexpr unsigned kSeed = 0;
constexpr std::size_t kShownOutput = 4;  // elements of an output that is shown
constexpr int kProfiledRuns = 20;        // at most; fewer where they would not fit into the seconds

// An artifact on its way through the panel.
struct Entrant {
  Result result;
  std::unique_ptr<Bench> bench;
  double estimate_ms = 0;   // median of a call when it was warm
  std::vector<int> visits;  // timed calls of each round

  void fail(const Failure& failure) {
    result.outcome = failure.outcome;
    result.reason = failure.what();
    bench.reset();
  }
};

void warm_up(Entrant& entrant) {
  const auto [estimate_ms, warning] =
      until_steady([&](int calls) { return entrant.bench->sample(calls, 0, kWarmSeriesSeconds).ns; });
  entrant.estimate_ms = estimate_ms;
  if (!warning.empty()) entrant.result.warnings.push_back(warning);
}

void check(const Comparison& found, const std::string& which) {
  if (!found.right) throw Failure(Outcome::kMismatch, which + "wrong outputs: " + found.reason);
  if (!found.unproved.empty()) throw Failure(Outcome::kNotProved, which + "not proved, because " + found.unproved);
}

// Verifies every test case; the sample is the last one, and stays bound.
void verify(const Bundle& bundle, const Artifact& artifact, Entrant& entrant) {
  const Limits limits{artifact.tolerance, artifact.mean_tolerance.value_or(Limits{}.mean)};
  auto& result = entrant.result;
  const auto count = bundle.further.size() + 1;
  for (std::size_t turn = 1; turn <= count; ++turn) {
    const auto index = turn % count;
    const auto found = entrant.bench->verify(index == 0 ? bundle.sample : bundle.further[index - 1], limits);
    const bool is_worst = !result.comparison || !(found.comparison.max_rel <= result.comparison->max_rel);
    if (is_worst) result.comparison = found.comparison;
    if (index == 0) result.head = found.head;
    check(found.comparison, bundle.is_bundled ? "test case " + std::to_string(index) + ": " : "");
  }
  const auto& first = bundle.sample.expected.front();
  if (first.size_bytes > kShownOutput * item_size(first.dtype)) result.head.clear();
}

Entrant open(const Bundle& bundle, const Artifact& artifact, const Settings& settings) {
  Entrant entrant;
  entrant.result.artifact = artifact;
  try {
    entrant.bench = isolate(settings.timeout_s);
    const auto opened = entrant.bench->open({artifact, settings.threads, bundle.sample.inputs});
    entrant.result.load_s = static_cast<double>(opened.load_ns) / 1e9;
    verify(bundle, artifact, entrant);
    warm_up(entrant);
    entrant.visits = plan_visits(entrant.estimate_ms, settings.num_runs, settings.seconds);
  } catch (const Failure& failure) {
    entrant.fail(failure);
  }
  return entrant;
}

// Returns the fastest entrant that can be measured, or null.
const Entrant* fastest(const std::vector<Entrant>& entrants) {
  const Entrant* best = nullptr;
  for (const auto& entrant : entrants) {
    if (entrant.bench && (!best || entrant.estimate_ms < best->estimate_ms)) best = &entrant;
  }
  return best;
}

void visit(Entrant& entrant, int round, const Settings& settings) {
  Samples samples;
  const int calls = entrant.visits.at(static_cast<std::size_t>(round));
  if (calls > 0 && entrant.bench) {
    const int warmup = entrant.estimate_ms < kWarmBelowMs ? settings.warmup : 0;
    // The box only guards against an artifact that suddenly slows down: the plan already fits it.
    const double box_s = std::max(1.0, 5 * calls * entrant.estimate_ms / 1000);
    try {
      samples = entrant.bench->sample(calls, warmup, box_s).ns;
    } catch (const Failure& failure) {
      entrant.fail(failure);
    }
  }
  entrant.result.rounds.push_back(std::move(samples));
}

void measure(const std::vector<Entrant*>& entrants, const Settings& settings, const Progress& progress) {
  std::mt19937 random(kSeed);
  auto order = entrants;
  for (int round = 0; round < kRounds; ++round) {
    progress("measuring, interleaved", round, kRounds);
    std::shuffle(order.begin(), order.end(), random);
    for (auto* entrant : order) visit(*entrant, round, settings);
  }
}

void profile(Entrant& entrant, const Settings& settings) {
  if (!entrant.bench) return;
  const double affordable = settings.seconds * 1000 / std::max(entrant.estimate_ms, 1e-6);
  Profile found;
  found.runs = std::max(1, static_cast<int>(std::min<double>({affordable, kProfiledRuns, 1.0 * settings.num_runs})));
  try {
    found.rows = entrant.bench->profile(found.runs);
  } catch (const Failure& failure) {
    found.fault = failure.what();
  }
  entrant.result.profile = found;
}

void rank_results(Panel& panel, const std::optional<std::pair<Rounds, Rounds>>& twins) {
  std::vector<Result*> measured;
  std::vector<Rounds> rounds;
  for (auto& result : panel.results) {
    if (result.outcome != Outcome::kOk) continue;
    measured.push_back(&result);
    rounds.push_back(result.rounds);
  }
  const auto ranking = rank(rounds, twins);
  if (twins) panel.noise_floor = noise_floor(twins->first, twins->second);
  panel.found_from = ranking.found_from;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    measured[i]->rank = ranking.ranks[i];
    measured[i]->ratio = ranking.ratios[i];
    measured[i]->latency = latency_ms(rounds[i]);
    measured[i]->mean_ms = mean_ms(rounds[i]);
  }
}

}  // namespace

Panel run_panel(const Bundle& bundle, const std::vector<Artifact>& artifacts, const Settings& settings,
                const Progress& progress) {
  std::vector<Entrant> entrants;
  for (const auto& artifact : artifacts) {
    progress("opening " + artifact.name, static_cast<int>(entrants.size()), static_cast<int>(artifacts.size()));
    entrants.push_back(open(bundle, artifact, settings));
  }
  std::vector<Entrant*> visited;
  for (auto& entrant : entrants) {
    if (entrant.bench) visited.push_back(&entrant);
  }
  Entrant twin;
  const Entrant* first = fastest(entrants);
  if (visited.size() > 1) {  // one alone is compared with nothing
    twin = open(bundle, first->result.artifact, settings);
    if (twin.bench) visited.push_back(&twin);
  }
  measure(visited, settings, progress);
  std::optional<std::pair<Rounds, Rounds>> twins;
  if (first && first->bench && twin.bench) twins.emplace(first->result.rounds, twin.result.rounds);
  Panel panel;
  for (auto& entrant : entrants) {
    if (settings.profile) profile(entrant, settings);
  }
  for (auto& entrant : entrants) panel.results.push_back(std::move(entrant.result));
  rank_results(panel, twins);
  return panel;
}

}  // namespace cross_backend
