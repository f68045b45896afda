// Panel: the artifacts of a bundle opened, verified, measured in interleaved rounds, and ranked.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench.h"
#include "manifest.h"
#include "outcome.h"
#include "statistics.h"

namespace cross_backend {

struct Settings {
  int num_runs = 1000;     // maximum number of timed calls of each artifact
  int warmup = 3;          // untimed calls at the start of each block
  double seconds = 5;      // most seconds of timed calls of each artifact
  int threads = 1;         // CPU threads of each
  double timeout_s = 600;  // longest answer of an artifact's process
  bool profile = false;    // whether the runtime's profiler runs afterwards
};

// What a runtime's profiler said of an artifact.
struct Profile {
  std::vector<Timing> rows;
  int runs = 0;
  std::string fault;  // why there is none
};

struct Result {
  Artifact artifact;
  Outcome outcome = Outcome::kOk;
  std::string reason;
  std::optional<double> load_s;
  std::optional<Comparison> comparison;
  std::vector<double> head;
  Rounds rounds;
  std::optional<Interval> latency;  // milliseconds; only of outputs that are right
  double mean_ms = 0;
  int rank = 0;
  std::optional<Interval> ratio;      // latency over that of the first, which is exactly 1
  std::vector<std::string> warnings;  // what may have disturbed the measurement
  std::optional<Profile> profile;     // where it was asked for
};

struct Panel {
  std::vector<Result> results;        // in the order that was asked for
  std::optional<double> noise_floor;  // natural logarithm of the smallest ratio that is believed; of two or more
  std::optional<double> found_from;   // relative difference (0.05 is 5 %) that is detected here with 95 % power
};

// Called with what is being done, steps done, and steps in all.
using Progress = std::function<void(const std::string& doing, int done, int total)>;

// Measures the artifacts, each verified on the bundle's sample and on what else it has.
Panel run_panel(const Bundle& bundle, const std::vector<Artifact>& artifacts, const Settings& settings,
                const Progress& progress);

}  // namespace cross_backend
