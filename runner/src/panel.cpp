#include "panel.h"

#include <algorithm>
#include <random>
#include <utility>

#include "blocks.h"
#include "ranking.h"
#include "ratio.h"
#include "steady.h"

namespace cross_backend {
namespace {

constexpr double kWarmSeriesSeconds = 0.5;  // most seconds of one series of the warm-up
// Faster artifacts get untimed calls at the start of each block: caches are cold after the others' turns.
constexpr double kWarmBelowMs = 50;
constexpr unsigned kSeed = 0;
constexpr std::size_t kShownOutput = 4;  // elements of an output that is shown
constexpr int kProfiledRuns = 20;        // at most; fewer where they would not fit into the seconds

// An artifact on its way through the panel.
struct Contestant {
  Result result;
  std::unique_ptr<Bench> bench;
  double estimate_ms = 0;   // median of a call when it was warm
  std::vector<int> blocks;  // timed calls of each round

  void fail(const Failure& failure) {
    result.outcome = failure.outcome;
    result.reason = failure.what();
    bench.reset();
  }
};

void warm_up(Contestant& contestant) {
  const auto [estimate_ms, warning] =
      until_steady([&](int calls) { return contestant.bench->sample(calls, 0, kWarmSeriesSeconds).ns; });
  contestant.estimate_ms = estimate_ms;
  if (!warning.empty()) contestant.result.warnings.push_back(warning);
}

void check(const Comparison& found, const std::string& which) {
  if (!found.right) throw Failure(Outcome::kMismatch, which + "wrong outputs: " + found.reason);
  if (!found.unproved.empty()) throw Failure(Outcome::kNotProved, which + "not proved, because " + found.unproved);
}

// Verifies every test case; the sample is the last one, and stays bound.
void verify(const Bundle& bundle, const Artifact& artifact, Contestant& contestant) {
  const Limits limits{artifact.tolerance, artifact.mean_tolerance.value_or(Limits{}.mean)};
  auto& result = contestant.result;
  const auto count = bundle.further.size() + 1;
  for (std::size_t turn = 1; turn <= count; ++turn) {
    const auto index = turn % count;
    const auto found = contestant.bench->verify(index == 0 ? bundle.sample : bundle.further[index - 1], limits);
    const bool is_worst = !result.comparison || !(found.comparison.max_rel <= result.comparison->max_rel);
    if (is_worst) result.comparison = found.comparison;
    if (index == 0) result.head = found.head;
    check(found.comparison, bundle.is_bundled ? "test case " + std::to_string(index) + ": " : "");
  }
  const auto& first = bundle.sample.expected.front();
  if (first.size_bytes > kShownOutput * item_size(first.dtype)) result.head.clear();
}

Contestant open(const Bundle& bundle, const Artifact& artifact, const Settings& settings) {
  Contestant contestant;
  contestant.result.artifact = artifact;
  try {
    contestant.bench = isolate(settings.timeout_s);
    const auto opened = contestant.bench->open({artifact, settings.threads, bundle.sample.inputs});
    contestant.result.load_s = static_cast<double>(opened.load_ns) / 1e9;
    verify(bundle, artifact, contestant);
    warm_up(contestant);
    contestant.blocks = plan_blocks(contestant.estimate_ms, settings.num_runs, settings.seconds);
  } catch (const Failure& failure) {
    contestant.fail(failure);
  }
  return contestant;
}

// Returns the fastest contestant that can be measured, or null.
const Contestant* fastest(const std::vector<Contestant>& contestants) {
  const Contestant* best = nullptr;
  for (const auto& contestant : contestants) {
    if (contestant.bench && (!best || contestant.estimate_ms < best->estimate_ms)) best = &contestant;
  }
  return best;
}

void measure_block(Contestant& contestant, int round, const Settings& settings) {
  Samples samples;
  const int calls = contestant.blocks.at(static_cast<std::size_t>(round));
  if (calls > 0 && contestant.bench) {
    const int warmup = contestant.estimate_ms < kWarmBelowMs ? settings.warmup : 0;
    // The box only guards against an artifact that suddenly slows down: the plan already fits it.
    const double box_s = std::max(1.0, 5 * calls * contestant.estimate_ms / 1000);
    try {
      samples = contestant.bench->sample(calls, warmup, box_s).ns;
    } catch (const Failure& failure) {
      contestant.fail(failure);
    }
  }
  contestant.result.rounds.push_back(std::move(samples));
}

void measure(const std::vector<Contestant*>& contestants, const Settings& settings, const Progress& progress) {
  std::mt19937 random(kSeed);
  auto order = contestants;
  for (int round = 0; round < kRounds; ++round) {
    progress("measuring, interleaved", round, kRounds);
    std::shuffle(order.begin(), order.end(), random);
    for (auto* contestant : order) measure_block(*contestant, round, settings);
  }
}

void profile(Contestant& contestant, const Settings& settings) {
  if (!contestant.bench) return;
  const double affordable = settings.seconds * 1000 / std::max(contestant.estimate_ms, 1e-6);
  Profile found;
  found.runs = std::max(1, static_cast<int>(std::min<double>({affordable, kProfiledRuns, 1.0 * settings.num_runs})));
  try {
    found.rows = contestant.bench->profile(found.runs);
  } catch (const Failure& failure) {
    found.fault = failure.what();
  }
  contestant.result.profile = found;
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
  std::vector<Contestant> contestants;
  for (const auto& artifact : artifacts) {
    progress("opening " + artifact.name, static_cast<int>(contestants.size()), static_cast<int>(artifacts.size()));
    contestants.push_back(open(bundle, artifact, settings));
  }
  std::vector<Contestant*> visited;
  for (auto& contestant : contestants) {
    if (contestant.bench) visited.push_back(&contestant);
  }
  Contestant twin;
  const Contestant* first = fastest(contestants);
  if (visited.size() > 1) {  // one alone is compared with nothing
    twin = open(bundle, first->result.artifact, settings);
    if (twin.bench) visited.push_back(&twin);
  }
  measure(visited, settings, progress);
  std::optional<std::pair<Rounds, Rounds>> twins;
  if (first && first->bench && twin.bench) twins.emplace(first->result.rounds, twin.result.rounds);
  Panel panel;
  for (auto& contestant : contestants) {
    if (settings.profile) profile(contestant, settings);
  }
  for (auto& contestant : contestants) panel.results.push_back(std::move(contestant.result));
  rank_results(panel, twins);
  return panel;
}

}  // namespace cross_backend
