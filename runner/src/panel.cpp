#include "panel.h"

#include <algorithm>
#include <random>

namespace cross_backend {
namespace {

constexpr int kRounds = 30;
constexpr int kCalibrationCalls = 50;
constexpr double kCalibrationSeconds = 0.5;
// Faster artifacts get untimed calls at the start of each visit: caches are cold after the others' turns.
constexpr double kWarmBelowMs = 50;
constexpr unsigned kSeed = 0;

// An artifact on its way through the panel.
struct Entrant {
  Result result;
  std::unique_ptr<Bench> bench;
  double estimate_ms = 0;

  void fail(const Failure& failure) {
    result.outcome = failure.outcome;
    result.reason = failure.what();
    bench.reset();
  }
};

double calibrate(Bench& bench, const Settings& settings) {
  return latency_ms({bench.sample(kCalibrationCalls, settings.warmup, kCalibrationSeconds)}).value;
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
    if (!opened.comparison.right) {
      throw Failure(Outcome::kMismatch, "wrong outputs: " + opened.comparison.reason);
    }
    entrant.estimate_ms = calibrate(*entrant.bench, settings);
  } catch (const Failure& failure) {
    entrant.fail(failure);
  }
  return entrant;
}

// Gives the fastest entrant that can be measured, or null.
Entrant* fastest(std::vector<Entrant>& entrants) {
  Entrant* best = nullptr;
  for (auto& entrant : entrants) {
    if (entrant.bench && (!best || entrant.estimate_ms < best->estimate_ms)) best = &entrant;
  }
  return best;
}

// Gives the timed calls of one round: all iterations, or as many as the time box has room for, spread evenly.
int calls_in(int round, double estimate_ms, const Settings& settings) {
  const double affordable = settings.seconds * 1000 / std::max(estimate_ms, 1e-6);
  const auto calls =
      static_cast<std::int64_t>(std::min<double>(settings.iterations, std::max<double>(affordable, kMinRounds)));
  return static_cast<int>(calls * (round + 1) / kRounds - calls * round / kRounds);
}

void visit(Entrant& entrant, int round, const Settings& settings) {
  Samples samples;
  const int calls = calls_in(round, entrant.estimate_ms, settings);
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

void rank_results(Panel& panel) {
  std::vector<Result*> measured;
  std::vector<Rounds> rounds;
  for (auto& result : panel.results) {
    if (result.outcome != Outcome::kOk) continue;
    measured.push_back(&result);
    rounds.push_back(result.rounds);
  }
  const auto ranks = rank(rounds, panel.noise_floor);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    measured[i]->rank = ranks[i];
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
  Entrant* first = fastest(entrants);
  if (first) {
    twin = open(bundle, first->result.artifact, settings);
    if (twin.bench) visited.push_back(&twin);
    measure(visited, settings, progress);
  }
  Panel panel;
  if (first && first->bench && twin.bench) panel.noise_floor = noise_floor(first->result.rounds, twin.result.rounds);
  for (auto& entrant : entrants) panel.results.push_back(std::move(entrant.result));
  rank_results(panel);
  return panel;
}

}  // namespace cross_backend
