#include "wire.h"

#include <limits>

#include "text.h"

namespace cross_backend::wire {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTensors = 1024;
constexpr std::size_t kMaxSteps = 1024;
constexpr std::size_t kMaxDelegates = 4096;
constexpr int kMaxThreads = 1024;
constexpr std::size_t kLongestPath = 4096;

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json rows_of(const std::vector<TensorFile>& files) {
  json rows = json::array();
  for (const auto& file : files) {
    json row{{"path", file.path.u8string()}, {"dtype", file.dtype}, {"shape", file.shape}};
    if (file.offset > 0) row["offset"] = file.offset;
    if (file.is_part) row["is_part"] = true;
    if (!file.sha256.empty()) row["sha256"] = file.sha256;
    rows.push_back(std::move(row));
  }
  return rows;
}

json row_of(const TestCase& given) {
  return {{"inputs", rows_of(given.inputs)},   {"expected", rows_of(given.expected)},
          {"inputs2", rows_of(given.inputs2)}, {"expected2", rows_of(given.expected2)},
          {"scale", rows_of(given.scale)},     {"rounding", rows_of(given.rounding)}};
}

double number_from(const json& value, double otherwise) { return value.is_null() ? otherwise : value.get<double>(); }

std::vector<double> head_from(const json& row) {
  std::vector<double> head;
  for (const auto& value : row) head.push_back(number_from(value, std::numeric_limits<double>::quiet_NaN()));
  return head;
}

std::optional<std::int64_t> first_from(const json& answer) {
  const auto& ns = answer.at("first_ns");
  return ns.is_null() ? std::nullopt : std::optional(ns.get<std::int64_t>());
}

}  // namespace

json to_json(const Subject& subject) {
  const auto& artifact = subject.artifact;
  json row{{"payload", artifact.payload.u8string()},
           {"target", artifact.target},
           {"sha256", artifact.sha256},
           {"threads", subject.threads},
           {"inputs", subject.inputs ? rows_of(*subject.inputs) : json()},
           {"delegates", artifact.delegates}};
  if (artifact.offset > 0) row["part"] = {{"offset", artifact.offset}, {"size_bytes", artifact.size_bytes}};
  return row;
}

Subject subject_from(const Node& arguments) {
  Artifact artifact;
  artifact.payload = path_from(arguments["payload"]);
  artifact.target = arguments["target"].name();
  artifact.runtime = runtime_name(artifact.target);
  artifact.sha256 = arguments["sha256"].sha256();
  if (const auto part = arguments.find("part")) {
    artifact.offset = (*part)["offset"].count();
    artifact.size_bytes = (*part)["size_bytes"].count();
  }
  if (const auto ids = arguments.find("delegates")) {
    for (const auto& id : ids->list(kMaxDelegates)) artifact.delegates.push_back(id.text());
  }
  Subject subject{artifact, arguments["threads"].count(1, kMaxThreads), {}};
  if (const auto inputs = arguments.find("inputs")) subject.inputs = files_from(*inputs);
  return subject;
}

json to_json(const TestCase& given, const Limits& limits) {
  auto row = row_of(given);
  row["tolerance"] = limits.tolerance;
  row["mean_tolerance"] = limits.mean;
  if (!given.has_state) return row;
  row["steps"] = json::array();
  for (const auto& step : given.steps) row["steps"].push_back(row_of(step));
  return row;
}

TestCase case_from(const Node& arguments) {
  TestCase given;
  given.inputs = files_from(arguments["inputs"]);
  given.expected = files_from(arguments["expected"]);
  const auto optional = [&](const char* key, std::vector<TensorFile>& files) {
    if (const auto rows = arguments.find(key)) files = files_from(*rows);
  };
  optional("inputs2", given.inputs2);
  optional("expected2", given.expected2);
  optional("scale", given.scale);
  optional("rounding", given.rounding);
  const auto steps = arguments.find("steps");
  given.has_state = steps.has_value();
  if (steps) {
    for (const auto& step : steps->list(kMaxSteps)) given.steps.push_back(case_from(step));
  }
  return given;
}

Limits limits_from(const Node& arguments) {
  Limits limits{arguments["tolerance"].number()};
  if (const auto mean = arguments.find("mean_tolerance")) limits.mean = mean->number();
  return limits;
}

std::vector<TensorFile> files_from(const Node& rows) {
  std::vector<TensorFile> files;
  for (const auto& row : rows.list(kMaxTensors)) files.push_back(read_plain_tensor_file(row, path_from(row["path"])));
  return files;
}

std::filesystem::path path_from(const Node& text) {
  const auto given = text.text();
  if (given.empty() || given.size() > kLongestPath || given.find('\0') != std::string::npos) text.fail("is not a path");
  return std::filesystem::u8path(given);
}

json to_json(const Opened& opened) {
  return {{"cold", opened.cold}, {"load_ns", opened.load_ns}, {"bind_ns", opened.bind_ns}};
}

json to_json(const Verified& verified) {
  const auto& c = verified.comparison;
  return {{"max_abs", c.max_abs},     {"max_rel", c.max_rel},  {"sqnr_db", c.sqnr_db},
          {"tolerance", c.tolerance}, {"right", c.right},      {"reason", c.reason},
          {"unproved", c.unproved},   {"head", verified.head}, {"first_ns", or_null(verified.first_ns)}};
}

json to_json(const Ran& ran) {
  return {{"first_ns", or_null(ran.first_ns)}, {"outputs", rows_of(ran.outputs)}, {"head", ran.head}};
}

json to_json(const Timed& timed) { return {{"ns", timed.ns}, {"involuntary_switches", timed.involuntary_switches}}; }

json to_json(const std::vector<Timing>& rows) {
  json list = json::array();
  for (const auto& row : rows) {
    list.push_back({{"name", printable(row.name)}, {"kind", row.kind}, {"calls", row.calls}, {"ms", row.ms}});
  }
  return list;
}

json to_json(const Machine& machine, const Condition& now) {
  const auto known = [](const std::string& text) { return text.empty() ? json() : json(text); };
  json held = json::object();
  for (const auto& runtime : runtimes()) held[runtime.name] = runtime.delegates();
  return {{"cpu", machine.cpu},
          {"architecture", machine.arch},
          {"system", machine.system},
          {"release", known(machine.release)},
          {"cores", machine.usable_cpus},
          {"memory_bytes", machine.memory_bytes ? json(machine.memory_bytes) : json()},
          {"hostname", known(machine.hostname)},
          {"runner", RUNNER_VERSION},
          {"runtimes", held},
          {"load_1m", or_null(now.load_1m)},
          {"governor", known(now.governor)},
          {"temperature_c", or_null(now.temperature_c)},
          {"clock_ns", now.clock_ns}};
}

Opened opened_from(const json& answer) {
  return {answer.at("cold").get<bool>(), answer.at("load_ns").get<std::int64_t>(),
          answer.at("bind_ns").get<std::int64_t>()};
}

// The verdict says which number a null stands for.
Verified verified_from(const json& answer) {
  const bool right = answer.at("right").get<bool>();
  const double absent = right ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return {{number_from(answer.at("max_abs"), absent), number_from(answer.at("max_rel"), absent),
           number_from(answer.at("sqnr_db"), absent), answer.at("tolerance").get<double>(), right,
           printable(answer.at("reason").get<std::string>()), printable(answer.at("unproved").get<std::string>())},
          head_from(answer.at("head")),
          first_from(answer)};
}

Ran ran_from(const json& answer) { return {first_from(answer), head_from(answer.at("head")), {}}; }

Timed timed_from(const json& answer) {
  return {answer.at("ns").get<Samples>(), answer.at("involuntary_switches").get<std::int64_t>()};
}

std::vector<Timing> timings_from(const json& answer) {
  std::vector<Timing> rows;
  for (const auto& row : answer) {
    rows.push_back({printable(row.at("name").get<std::string>()), printable(row.at("kind").get<std::string>()),
                    row.at("calls").get<int>(), row.at("ms").get<double>()});
  }
  return rows;
}

}  // namespace cross_backend::wire
