// Questions: what a bench on this machine can be asked, in the protocol of cross_backend/worker.
#pragma once

#include <string>

#include "bench.h"

namespace cross_backend {

// Answers one line of JSON, {"question": "module:Name", "arguments": {…}}, of which the part behind the colon counts.
// Returns {"value": …} or {"error": {"type": …, "text": …}} as one line without its end. Throws nothing.
std::string answer(LocalBench& bench, const std::string& line);

// Returns the answer that refuses a question before it was read.
std::string refusal(const std::string& text);

}  // namespace cross_backend
