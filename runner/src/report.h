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

// Whether at least one artifact ran and all that ran are right.
bool succeeded(const Panel& panel);

// Returns a line per artifact, the ranking and the summary; words stand for emoji where `plain`.
std::string text_report(const Report& report, bool plain);

// Returns one JSON document in the shape of `cross-backend compare --json`; absent values are null.
std::string json_report(const Report& report);

}  // namespace cross_backend
