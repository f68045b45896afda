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
      until_steady([&](int calls) { return entrant.bench->sample(calls, 0, kWarmSeriesSeconds); });
  entrant.estimate_ms = estimate_ms;
  if (!warning.empty()) entrant.result.warnings.push_back(warning);
}

Entrant open(const Bundle& bundle, const Artifact& artifact, const Settings& settings) {
  Entrant entrant;
  entrant.result.artifact = artifact;
  try {
    entrant.bench = isolate(bundle, artifact, settings.threads, settings.timeout_s);
    const auto opened = entrant.bench->open();
    entrant.result.load_s = opened.load_s;
    entrant.result.comparison = opened.comparison;
    entrant.result.head = opened.head;
    const auto& found = opened.comparison;
    if (!found.right) throw Failure(Outcome::kMismatch, "wrong outputs: " + found.reason);
    if (!found.unproved.empty()) throw Failure(Outcome::kNotProved, "not proved, because " + found.unproved);
    warm_up(entrant);
    entrant.visits = plan_visits(entrant.estimate_ms, settings.iterations, settings.seconds);
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
      samples = entrant.bench->sample(calls, warmup, box_s);
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
  if (visited.size() > 1) {  // one alone is told apart from nothing
    twin = open(bundle, first->result.artifact, settings);
    if (twin.bench) visited.push_back(&twin);
  }
  measure(visited, settings, progress);
  std::optional<std::pair<Rounds, Rounds>> twins;
  if (first && first->bench && twin.bench) twins.emplace(first->result.rounds, twin.result.rounds);
  Panel panel;
  for (auto& entrant : entrants) panel.results.push_back(std::move(entrant.result));
  rank_results(panel, twins);
  return panel;
}

}  // namespace cross_backend
