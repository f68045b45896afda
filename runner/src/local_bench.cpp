#include <algorithm>
#include <chrono>
#include <new>

#include "bench.h"
#include "digest.h"
#include "outcome.h"
#include "text.h"

namespace cross_backend {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

const Runtime& runtime_of(const Artifact& artifact) {
  std::vector<std::string> names;
  for (const auto& runtime : runtimes()) {
    if (artifact.runtime == runtime.name) return runtime;
    names.emplace_back(runtime.name);
  }
  throw Failure(Outcome::kUnavailable, "this runner has no runtime '" + artifact.runtime + "'; it has " + join(names));
}

void check_payload(const Artifact& artifact) {
  const auto name = artifact.payload.filename().u8string();
  std::string found;
  try {
    found = digest_path(artifact.payload);
  } catch (const std::exception& fault) {
    throw Failure(Outcome::kLoadFail, fault.what());
  }
  if (found != artifact.sha256) {
    throw Failure(Outcome::kLoadFail, name + " is not the payload that manifest.json describes (sha256 " +
                                          found.substr(0, 12) + "… instead of " + artifact.sha256.substr(0, 12) +
                                          "…): it was changed, truncated or swapped");
  }
}

// Maps what a runtime or the standard library throws to a Failure.
template <typename Function>
auto guarded(Outcome outcome, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const Failure&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Failure(outcome, "it needs more memory than there is");
  } catch (const std::exception& error) {
    throw Failure(outcome, error.what());
  }
}

}  // namespace

LocalBench::LocalBench(Bundle bundle, Artifact artifact, int threads)
    : bundle_(std::move(bundle)), artifact_(std::move(artifact)), threads_(threads) {}

Opened LocalBench::open() {
  const auto& runtime = runtime_of(artifact_);
  check_payload(artifact_);
  const auto start = Clock::now();
  session_ = guarded(Outcome::kLoadFail, [&] { return runtime.open(artifact_, threads_); });
  const double load_s = seconds_since(start);
  return guarded(Outcome::kRunFail, [&] {
    Expectation expected{{read_tensors(bundle_.expected)}, read_tensors(bundle_.scale), read_tensors(bundle_.rounding)};
    std::vector<Tensors> outputs{outputs_for(bundle_.inputs)};
    if (!bundle_.expected2.empty()) {
      expected.outputs.push_back(read_tensors(bundle_.expected2));
      outputs.push_back(outputs_for(bundle_.inputs2));
      bind(bundle_.inputs);  // the ones that are timed
    }
    auto head = outputs[0].empty() ? std::vector<double>{} : to_doubles(outputs[0].front(), kHead + 1);
    if (head.size() > kHead) head.clear();
    const Limits limits{artifact_.tolerance, artifact_.mean_tolerance.value_or(Limits{}.mean)};
    return Opened{load_s, compare_outputs(expected, outputs, limits), head};
  });
}

void LocalBench::bind(const std::vector<TensorFile>& files) {
  inputs_ = read_tensors(files);
  session_->bind(inputs_);
}

Tensors LocalBench::outputs_for(const std::vector<TensorFile>& files) {
  bind(files);
  session_->run();
  return session_->outputs();
}

Samples LocalBench::sample(int calls, int warmup, double seconds) {
  return guarded(Outcome::kRunFail, [&] {
    const auto start = Clock::now();
    for (int i = 0; i < warmup && (i == 0 || seconds_since(start) < seconds); ++i) session_->run();
    Samples samples(static_cast<std::size_t>(calls));
    std::size_t taken = 0;
    while (taken < samples.size()) {
      const auto before = Clock::now();
      session_->run();
      const auto after = Clock::now();
      samples[taken++] = std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
      if (std::chrono::duration<double>(after - start).count() > seconds) break;
    }
    samples.resize(taken);
    return samples;
  });
}

}  // namespace cross_backend
