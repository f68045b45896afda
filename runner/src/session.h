// The seam to runtimes: what this program asks of one, and the table of those that are linked in.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "manifest.h"
#include "tensor.h"
#include "timing.h"

namespace cross_backend {

// An open artifact. Every function throws Failure.
class Session {
 public:
  virtual ~Session() = default;

  // Returns what the program takes, without data; a free extent has one of its sizes.
  virtual std::vector<Tensor> takes() const = 0;

  // Converts and keeps inputs for run(); the tensors live as long as the session.
  virtual void bind(const std::vector<Tensor>& inputs) = 0;

  // Computes the outputs. This is what is timed: it allocates nothing of its own, and returns when they are there.
  virtual void run() = 0;

  // Returns to the program's initial state; what is bound stays bound.
  virtual void reset() = 0;

  // Copies the outputs of the last run.
  virtual std::vector<Tensor> outputs() const = 0;

  // Returns what the runtime's profiler kept of the last run; nothing of a session that was opened without it.
  virtual std::vector<Timing> timings() const = 0;
};

// Throws a Failure where a sample has another number of inputs than the program takes.
void check_count(std::size_t taken, std::size_t given);

struct Opening {
  int threads;
  bool profiles;  // whether the runtime's own profiler is to record
};

struct Runtime {
  const char* name;
  // Opens an artifact whose payload's digest was checked. Throws Failure, Unavailable where this machine or this build
  // cannot run it.
  std::unique_ptr<Session> (*open)(const Artifact& artifact, const Opening& how);
  // Returns the ids of the delegates that it holds.
  std::vector<std::string> (*delegates)();
};

// Returns the runtimes that are linked in.
const std::vector<Runtime>& runtimes();

}  // namespace cross_backend
