#include <algorithm>
#include <chrono>
#include <fstream>
#include <new>
#ifndef _WIN32
#include <sys/resource.h>
#endif

#include "bench.h"
#include "digest.h"
#include "outcome.h"
#include "random_inputs.h"
#include "text.h"

namespace cross_backend {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::int64_t ns_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

std::int64_t involuntary_switches() {
#ifndef _WIN32
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) return usage.ru_nivcsw;
#endif
  return 0;
}

const Runtime& runtime_of(const Artifact& artifact) {
  std::vector<std::string> names;
  for (const auto& runtime : runtimes()) {
    if (artifact.runtime == runtime.name) return runtime;
    names.emplace_back(runtime.name);
  }
  throw Unavailable("this runner has no runtime '" + artifact.runtime + "'; it has " + join(names));
}

void check_payload(const Artifact& artifact) {
  const auto name = artifact.payload.filename().u8string();
  std::string found;
  try {
    found = digest_path(artifact.payload);
  } catch (const std::exception& fault) {
    throw BundleError(std::string(fault.what()));
  }
  if (found != artifact.sha256) {
    throw BundleError(name + " is not the payload that its manifest describes (sha256 " + found.substr(0, 12) +
                      "… instead of " + artifact.sha256.substr(0, 12) + "…): it was changed, truncated or swapped");
  }
}

// Maps what a runtime or the standard library throws to a Failure.
template <typename Function>
auto guarded(Outcome outcome, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const Failure&) {
    throw;
  } catch (const BundleError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Failure(outcome, "it needs more memory than there is");
  } catch (const std::exception& error) {
    throw Failure(outcome, error.what());
  }
}

std::vector<double> head_of(const Tensors& outputs) {
  return outputs.empty() ? std::vector<double>{} : to_doubles(outputs.front(), kHead);
}

Expectation read(const TestCase& given) {
  return {{read_tensors(given.expected)}, read_tensors(given.scale), read_tensors(given.rounding)};
}

TensorFile written(const Tensor& tensor, const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(tensor.data.data()), static_cast<std::streamsize>(tensor.data.size()));
  if (!file.flush()) throw Failure(Outcome::kRunFail, path.filename().u8string() + " cannot be written");
  return {path, tensor.dtype, tensor.shape, 0, tensor.data.size(), ""};
}

}  // namespace

Opened LocalBench::open(const Subject& subject) {
  const auto& runtime = runtime_of(subject.artifact);
  check_payload(subject.artifact);
  session_.reset();
  subject_ = subject;
  const bool cold = is_cold_;
  is_cold_ = was_called_ = false;
  auto start = Clock::now();
  session_ = guarded(Outcome::kLoadFail, [&] { return runtime.open(subject.artifact, {subject.threads, false}); });
  const auto load_ns = ns_since(start);
  return guarded(Outcome::kRunFail, [&] {
    inputs_ = subject.inputs ? read_tensors(*subject.inputs) : random_inputs(session_->takes());
    start = Clock::now();
    session_->bind(inputs_);
    return Opened{cold, load_ns, ns_since(start)};
  });
}

Session& LocalBench::held() {
  if (!session_) throw Failure(Outcome::kRunFail, "no artifact is open.");
  return *session_;
}

void LocalBench::bind(const std::vector<TensorFile>& files) {
  auto& session = held();
  guarded(Outcome::kRunFail, [&] {
    inputs_ = read_tensors(files);
    session.bind(inputs_);
  });
}

// Runs once; returns the time of the first call since the session was opened.
std::optional<std::int64_t> LocalBench::call() {
  const auto start = Clock::now();
  session_->run();
  const auto took = ns_since(start);
  return std::exchange(was_called_, true) ? std::nullopt : std::optional(took);
}

Tensors LocalBench::outputs_for(const std::vector<TensorFile>& inputs) {
  bind(inputs);
  call();
  return session_->outputs();
}

// Verifies the calls after the first, and that a second sequence begins like the first one; the state is the initial
// one then.
Comparison LocalBench::in_order(const TestCase& given, const Expectation& expected, const Limits& limits,
                                Comparison found) {
  const auto precision = precision_of(subject_->artifact.target);
  const auto wrong = [&](const TestCase& step) {
    const auto both = joined(expected, read(step));
    auto allowed = limits;
    if (!both.rounding.empty()) {
      const auto rounding = to_doubles(both.rounding.front(), 1).at(0);
      allowed.tolerance = std::max(allowed.tolerance, limits_of(precision, rounding).tolerance);
    }
    return compare_outputs(both, {outputs_for(step.inputs)}, allowed).reason;
  };
  const auto judge = [&](const std::string& reason, const std::string& which, const char* why) {
    if (!found.right || reason.empty()) return;
    found.right = false;
    found.reason = which + reason + why;
  };
  for (std::size_t i = 0; i < given.steps.size() && found.right; ++i) {
    judge(wrong(given.steps[i]), "call " + std::to_string(i + 2) + ": ", ": it loses the program's state");
  }
  constexpr auto kSurvives = ", in a second sequence after a reset: its state survives the reset";
  session_->reset();
  const auto again = compare_outputs({{expected.outputs.front()}, expected.scale, expected.rounding},
                                     {outputs_for(given.inputs)}, limits);
  judge(again.reason, "", kSurvives);
  if (!given.steps.empty() && found.right) judge(wrong(given.steps.front()), "call 2: ", kSurvives);
  session_->reset();
  bind(given.inputs);  // the ones that are timed
  return found;
}

Verified LocalBench::verify(const TestCase& given, const Limits& limits) {
  held();
  return guarded(Outcome::kRunFail, [&] {
    auto expected = read(given);
    bind(given.inputs);
    const auto first_ns = call();
    std::vector<Tensors> outputs{session_->outputs()};
    if (!given.expected2.empty()) {
      expected.outputs.push_back(read_tensors(given.expected2));
      bind(given.inputs2);
      call();
      outputs.push_back(session_->outputs());
      bind(given.inputs);  // the ones that are timed
    }
    auto found = compare_outputs(expected, outputs, limits);
    if (given.has_state && found.right) found = in_order(given, expected, limits, std::move(found));
    return Verified{std::move(found), head_of(outputs.front()), first_ns};
  });
}

Ran LocalBench::run(const std::optional<std::filesystem::path>& folder) {
  held();
  return guarded(Outcome::kRunFail, [&] {
    Ran ran{call(), {}, {}};
    const auto outputs = session_->outputs();
    ran.head = head_of(outputs);
    for (std::size_t i = 0; folder && i < outputs.size(); ++i) {
      ran.outputs.push_back(written(outputs[i], *folder / ("output_" + std::to_string(i) + ".bin")));
    }
    return ran;
  });
}

Timed LocalBench::sample(int calls, int warmup, double seconds) {
  auto& session = held();
  return guarded(Outcome::kRunFail, [&] {
    const auto start = Clock::now();
    for (int i = 0; i < warmup && (i == 0 || seconds_since(start) < seconds); ++i) session.run();
    Samples samples(static_cast<std::size_t>(calls));
    std::size_t taken = 0;
    was_called_ = true;
    const auto switches = involuntary_switches();
    while (taken < samples.size()) {
      const auto before = Clock::now();
      session.run();
      const auto after = Clock::now();
      samples[taken++] = std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
      if (std::chrono::duration<double>(after - start).count() > seconds) break;
    }
    const auto taken_away = involuntary_switches() - switches;
    samples.resize(taken);
    return Timed{std::move(samples), taken_away};
  });
}

std::vector<Timing> LocalBench::profile(int runs) {
  held();
  return guarded(Outcome::kRunFail, [&] {
    const auto& runtime = runtime_of(subject_->artifact);
    const auto session = runtime.open(subject_->artifact, {subject_->threads, true});
    session->bind(inputs_);
    session->run();  // the first one is not counted
    std::vector<std::vector<Timing>> recorded;
    for (int i = 0; i < runs; ++i) {
      session->run();
      recorded.push_back(session->timings());
    }
    auto found = typical(recorded);
    if (found.empty()) throw Unsupported("the runtime's profiler recorded nothing.");
    return found;
  });
}

}  // namespace cross_backend
