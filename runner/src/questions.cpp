#include "questions.h"

#include <array>
#include <cmath>
#include <exception>
#include <functional>
#include <utility>

#include "machine.h"
#include "memory.h"
#include "outcome.h"
#include "text.h"
#include "wire.h"

namespace cross_backend {
namespace {

using nlohmann::json;

constexpr int kMostCalls = 10'000'000;
constexpr int kMostWarmUp = 1'000'000;
constexpr int kMostProfiled = 10'000;

double seconds_from(const Node& number) {
  if (!(number.number() >= 0) || !std::isfinite(number.number())) number.fail("is not a number from 0");
  return number.number();
}

// A function reads all of its arguments before it does anything; `act` is what it then does.
using Act = std::function<json(LocalBench&)>;

Act open(const Node& arguments) {
  return [subject = wire::subject_from(arguments)](LocalBench& bench) { return wire::to_json(bench.open(subject)); };
}

Act bind(const Node& arguments) {
  return [files = wire::files_from(arguments["inputs"])](LocalBench& bench) {
    bench.bind(files);
    return json();
  };
}

Act verify(const Node& arguments) {
  return [given = wire::case_from(arguments), limits = wire::limits_from(arguments)](LocalBench& bench) {
    return wire::to_json(bench.verify(given, limits));
  };
}

Act run(const Node& arguments) {
  std::optional<std::filesystem::path> folder;
  if (const auto given = arguments.find("outputs")) folder = wire::path_from(*given);
  return [folder](LocalBench& bench) { return wire::to_json(bench.run(folder)); };
}

Act sample(const Node& arguments) {
  return [calls = arguments["calls"].count(1, kMostCalls), warm_up = arguments["warm_up"].count(0, kMostWarmUp),
          seconds = seconds_from(arguments["seconds"])](LocalBench& bench) {
    return wire::to_json(bench.sample(calls, warm_up, seconds));
  };
}

Act profile(const Node& arguments) {
  return [runs = arguments["runs"].count(1, kMostProfiled)](LocalBench& bench) {
    return wire::to_json(bench.profile(runs));
  };
}

Act memory(const Node&) {
  return [](LocalBench&) {
    const auto used = this_memory();
    const auto known = [](std::uint64_t bytes) { return bytes ? json(bytes) : json(); };
    return json{{"rss_bytes", known(used.resident)}, {"peak_bytes", known(used.peak)}};
  };
}

Act machine(const Node&) {
  return [](LocalBench&) { return wire::to_json(this_machine(), this_condition()); };
}

Act beat(const Node&) {
  return [](LocalBench&) { return json(); };
}

constexpr std::array<std::pair<const char*, Act (*)(const Node&)>, 9> kQuestions{{
    {"Beat", beat},
    {"Bind", bind},
    {"Machine", machine},
    {"Memory", memory},
    {"Open", open},
    {"Profile", profile},
    {"Run", run},
    {"Sample", sample},
    {"Verify", verify},
}};

json error(const char* type, const std::string& text) { return {{"error", {{"type", type}, {"text", text}}}}; }

// Throws BundleError where the line is no question.
Act act_of(const std::string& line) {
  static const std::string complaint = "no question: ";
  const auto request = parse_document(line, complaint);
  const Node root(request, complaint);
  const auto full = root["question"].text();
  const auto name = full.substr(full.find(':') == std::string::npos ? 0 : full.find(':') + 1);
  for (const auto& [known, read] : kQuestions) {
    if (name == known) return read(root["arguments"]);
  }
  throw BundleError("unknown question '" + printable(full) + "'.");
}

json answered(LocalBench& bench, const std::string& line) {
  Act act;
  try {
    act = act_of(line);
  } catch (const std::exception& fault) {
    return error("RunError", printable(fault.what()));
  }
  try {
    return {{"value", act(bench)}};
  } catch (const Unavailable& fault) {
    return {{"error", {{"type", "UnavailableError"}, {"reason", fault.reason}, {"remedy", fault.remedy}}}};
  } catch (const Unsupported& fault) {
    return error("UnsupportedError", fault.what());
  } catch (const Failure& fault) {
    return error(fault.outcome == Outcome::kLoadFail ? "LoadError" : "RunError", fault.what());
  } catch (const BundleError& fault) {
    return error("ArtifactError", printable(fault.what()));
  } catch (const std::exception& fault) {
    return error("RunError", printable(fault.what()));
  }
}

std::string text_of(const json& value) { return value.dump(-1, ' ', true, json::error_handler_t::replace); }

}  // namespace

std::string answer(LocalBench& bench, const std::string& line) { return text_of(answered(bench, line)); }

std::string refusal(const std::string& text) { return text_of(error("RunError", text)); }

}  // namespace cross_backend
