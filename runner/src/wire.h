// The bench's values as JSON: the arguments of questions, which anybody may send, and the answers of our own process.
#pragma once

#include <nlohmann/json.hpp>

#include "bench.h"
#include "machine.h"
#include "node.h"

namespace cross_backend::wire {

// What is asked. Reading throws BundleError where an argument is missing or of another kind.
nlohmann::json to_json(const Subject& subject);
Subject subject_from(const Node& arguments);
nlohmann::json to_json(const TestCase& given, const Limits& limits);
TestCase case_from(const Node& arguments);
Limits limits_from(const Node& arguments);
std::vector<TensorFile> files_from(const Node& rows);
std::filesystem::path path_from(const Node& text);

// What is answered. Infinite and undefined numbers become null. Reading throws nlohmann::json::exception.
nlohmann::json to_json(const Opened& opened);
nlohmann::json to_json(const Verified& verified);
nlohmann::json to_json(const Ran& ran);
nlohmann::json to_json(const Timed& timed);
nlohmann::json to_json(const std::vector<Timing>& rows);
nlohmann::json to_json(const Machine& machine, const Condition& now);
Opened opened_from(const nlohmann::json& answer);
Verified verified_from(const nlohmann::json& answer);
Ran ran_from(const nlohmann::json& answer);
Timed timed_from(const nlohmann::json& answer);
std::vector<Timing> timings_from(const nlohmann::json& answer);

}  // namespace cross_backend::wire
