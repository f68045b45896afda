// A bench: one artifact, opened, verified and timed; in this process or, isolated, in one of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "compare.h"
#include "manifest.h"
#include "session.h"
#include "statistics.h"
#include "timing.h"

namespace cross_backend {

// What is put on a bench.
struct Subject {
  Artifact artifact;
  int threads;
  std::optional<std::vector<TensorFile>> inputs;  // nothing: random ones in the shapes that the program says
};

struct Opened {
  bool cold;             // whether nothing was opened there before
  std::int64_t load_ns;  // from asking the runtime to load to a session that is ready
  std::int64_t bind_ns;
};

struct Verified {
  Comparison comparison;
  std::vector<double> head;              // the first output's first elements
  std::optional<std::int64_t> first_ns;  // of the first call since it was opened
};

struct Ran {
  std::optional<std::int64_t> first_ns;
  std::vector<double> head;
  std::vector<TensorFile> outputs;  // where they were to be written
};

// What one block of timed calls gave; measure/latency.py is the reference.
struct Timed {
  Samples ns;
  std::int64_t involuntary_switches;  // how often the kernel took the processor away meanwhile
};

inline constexpr std::size_t kHead = 8;

// Every function throws Failure.
class Bench {
 public:
  virtual ~Bench() = default;

  // Checks the payload's digest, opens it and binds the inputs.
  virtual Opened open(const Subject& subject) = 0;

  // Runs each input of a test case and compares; the first stays bound.
  virtual Verified verify(const TestCase& given, const Limits& limits) = 0;

  // Runs once on what is bound; writes the outputs into a folder where one is given.
  virtual Ran run(const std::optional<std::filesystem::path>& folder) = 0;

  // Runs `warmup` times untimed, then times up to `calls` calls one by one; stops after the call that passes `seconds`.
  virtual Timed sample(int calls, int warmup, double seconds) = 0;

  // Returns what the runtime's profiler says of so many runs on what is bound, in a session of its own.
  virtual std::vector<Timing> profile(int runs) = 0;
};

class LocalBench final : public Bench {
 public:
  Opened open(const Subject& subject) override;
  Verified verify(const TestCase& given, const Limits& limits) override;
  Ran run(const std::optional<std::filesystem::path>& folder) override;
  Timed sample(int calls, int warmup, double seconds) override;
  std::vector<Timing> profile(int runs) override;
  void bind(const std::vector<TensorFile>& files);

 private:
  Session& held();
  std::optional<std::int64_t> call();
  Tensors outputs_for(const std::vector<TensorFile>& inputs);
  Comparison in_order(const TestCase& given, const Expectation& expected, const Limits& limits, Comparison found);

  bool is_cold_ = true;
  bool was_called_ = false;  // since it was opened
  std::optional<Subject> subject_;
  std::vector<Tensor> inputs_;
  std::unique_ptr<Session> session_;
};

// Returns a bench in a process of its own, so that a runtime that crashes or hangs ends nothing else; where the system
// has no such processes, a local one. No answer may take longer than `timeout_s`.
std::unique_ptr<Bench> isolate(double timeout_s);

}  // namespace cross_backend
