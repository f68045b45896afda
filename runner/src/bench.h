// A bench: one artifact, opened, verified and timed; in this process or, isolated, in one of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "compare.h"
#include "manifest.h"
#include "session.h"
#include "statistics.h"

namespace cross_backend {

struct Opened {
  double load_s;  // from asking the runtime to load to a session that is ready
  Comparison comparison;
  std::vector<double> head;  // the first output, where it has at most kHead elements
};

inline constexpr std::size_t kHead = 4;

// Every function throws Failure.
class Bench {
 public:
  virtual ~Bench() = default;

  // Checks the payload's digest, opens it, runs each input of the sample and compares. Called once, first.
  virtual Opened open() = 0;

  // Runs `warmup` times untimed, then times up to `calls` calls one by one; stops after the call that passes `seconds`.
  virtual Samples sample(int calls, int warmup, double seconds) = 0;
};

class LocalBench final : public Bench {
 public:
  LocalBench(Bundle bundle, Artifact artifact, int threads);
  Opened open() override;
  Samples sample(int calls, int warmup, double seconds) override;

 private:
  void bind(const std::vector<TensorFile>& files);
  Tensors outputs_for(const std::vector<TensorFile>& files);

  Bundle bundle_;
  Artifact artifact_;
  int threads_;
  std::vector<Tensor> inputs_;
  std::unique_ptr<Session> session_;
};

// Returns a bench in a process of its own, so that a runtime that crashes or hangs ends nothing else; where the system
// has no such processes, a local one. No answer may take longer than `timeout_s`.
std::unique_ptr<Bench> isolate(const Bundle& bundle, const Artifact& artifact, int threads, double timeout_s);

// Answers the requests of an isolated bench's parent until it closes the pipe; the other side of `isolate`.
// Returns the exit status of this process.
int serve(const std::filesystem::path& folder, const std::string& artifact, int threads);

}  // namespace cross_backend
