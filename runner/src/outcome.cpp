#include "outcome.h"

#include <array>
#include <utility>

namespace cross_backend {
namespace {

constexpr std::array<std::pair<Outcome, const char*>, 7> kNames{{
    {Outcome::kOk, "OK"},
    {Outcome::kUnavailable, "UNAVAILABLE"},
    {Outcome::kLoadFail, "LOAD_FAIL"},
    {Outcome::kRunFail, "RUN_FAIL"},
    {Outcome::kTimeout, "TIMEOUT"},
    {Outcome::kMismatch, "MISMATCH"},
    {Outcome::kNotProved, "NOT_PROVED"},
}};

}  // namespace

const char* name_of(Outcome outcome) {
  for (const auto& [value, name] : kNames) {
    if (value == outcome) return name;
  }
  return "RUN_FAIL";
}

Outcome outcome_of(const std::string& name) {
  for (const auto& [value, known] : kNames) {
    if (name == known) return value;
  }
  return Outcome::kRunFail;
}

}  // namespace cross_backend
