// How one artifact ends, and the exceptions that say so.
#pragma once

#include <stdexcept>
#include <string>

#include "text.h"

namespace cross_backend {

enum class Outcome {
  kOk,
  kUnavailable,  // not in this program or not on this machine: reason and remedy
  kLoadFail,
  kRunFail,
  kTimeout,
  kMismatch,   // it ran, and its outputs are wrong
  kNotProved,  // it ran, its outputs are those that were expected, and that proves nothing
};

// Exit statuses, those of the Python command.
inline constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2, kNothingProved = 3;

// Returns the name that reports use: "OK", "LOAD_FAIL", …
const char* name_of(Outcome outcome);

// Returns the outcome of that name; a name that is none is kRunFail.
Outcome outcome_of(const std::string& name);

// One artifact cannot go on; the text is made one printable line, whatever it holds.
class Failure : public std::runtime_error {
 public:
  Failure(Outcome outcome, const std::string& reason) : std::runtime_error(printable(reason)), outcome(outcome) {}
  Outcome outcome;
};

// It cannot run in this program or on this machine; the text holds the remedy, too, where there is one.
class Unavailable : public Failure {
 public:
  explicit Unavailable(const std::string& reason, const std::string& remedy = "")
      : Failure(Outcome::kUnavailable, reason + (remedy.empty() ? "" : "; " + remedy)),
        reason(printable(reason)),
        remedy(printable(remedy)) {}
  std::string reason;
  std::string remedy;
};

// What was asked for is nothing that this artifact, or its runtime, can ever do.
class Unsupported : public Failure {
 public:
  explicit Unsupported(const std::string& reason) : Failure(Outcome::kRunFail, reason) {}
};

// A file or folder is missing, damaged, or not what its manifest says; the text is one line.
class BundleError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The command line names something that does not exist; the text is one line.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace cross_backend
