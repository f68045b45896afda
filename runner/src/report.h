// Reports: what a person reads, and the JSON document.
#pragma once

#include <string>
#include <vector>

#include "machine.h"
#include "manifest.h"
#include "panel.h"

namespace cross_backend {

// All that a report says.
struct Report {
  const Bundle& bundle;
  const Panel& panel;
  const Settings& settings;
  const Machine& machine;
};

// Returns the exit status: 0 where at least one artifact is verified and none is wrong, 3 where none is wrong and
// nothing is proved, else 1.
int status_of(const Panel& panel);

// Returns a line per artifact, the ranking and the summary; words stand for emoji where `plain`.
std::string text_report(const Report& report, bool plain);

// Returns what a person reads of the only artifact of a file: verified, timed, profiled.
std::string file_report(const Report& report, bool plain);

// Returns a text with words for its emoji where `plain`, and with nothing that a terminal obeys.
std::string shown_text(std::string text, bool plain);

// Returns the durations of the calls, and the profile where there is one, for a person.
std::string profile_lines(const Result& result);

// Returns the JSON document of a run that nothing was compared with.
std::string unverified_document(const std::string& model, const std::string& target, const std::vector<double>& output,
                                const std::string& reason);

// Returns one JSON document in the shape of `cross-backend compare --json`; absent values are null.
std::string json_report(const Report& report);

}  // namespace cross_backend
