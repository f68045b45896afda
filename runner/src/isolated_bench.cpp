// One JSON document a line: {"op": "open"} or {"op": "sample", …} there, {"value": …} or {"error": …} back.
#include "bench.h"

#ifdef _WIN32

namespace cross_backend {

std::unique_ptr<Bench> isolate(const Bundle& bundle, const Artifact& artifact, int threads, double) {
  return std::make_unique<LocalBench>(bundle, artifact, threads);
}

int serve(const std::filesystem::path&, const std::string&, int) { return 2; }

}  // namespace cross_backend

#else

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#ifdef __linux__
#include <signal.h>
#include <sys/prctl.h>
#endif

#include "outcome.h"
#include "process.h"
#include "text.h"

namespace cross_backend {
namespace {

using nlohmann::json;

// JSON has no infinity and no NaN; they become null, and the verdict tells which one a null stands for.
json to_json(const Opened& opened) {
  const auto& c = opened.comparison;
  return {{"load_s", opened.load_s}, {"head", opened.head},  {"max_abs", c.max_abs},
          {"max_rel", c.max_rel},    {"sqnr_db", c.sqnr_db}, {"tolerance", c.tolerance},
          {"right", c.right},        {"reason", c.reason},   {"unproved", c.unproved}};
}

Opened opened_from(const json& row) {
  const bool right = row.at("right").get<bool>();
  const auto number = [&](const json& value) {
    if (!value.is_null()) return value.get<double>();
    return right ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  };
  std::vector<double> head;
  for (const auto& value : row.at("head")) head.push_back(number(value));
  return {row.at("load_s").get<double>(),
          {number(row.at("max_abs")), number(row.at("max_rel")), number(row.at("sqnr_db")),
           row.at("tolerance").get<double>(), right, printable(row.at("reason").get<std::string>()),
           printable(row.at("unproved").get<std::string>())},
          head};
}

class IsolatedBench final : public Bench {
 public:
  IsolatedBench(const Bundle& bundle, const Artifact& artifact, int threads, double timeout_s)
      : process_({"--worker=" + artifact.name, "--threads", std::to_string(threads), "--", bundle.folder.string()}),
        timeout_s_(timeout_s) {}

  Opened open() override { return ask(Outcome::kLoadFail, "was opened", {{"op", "open"}}, opened_from); }

  Samples sample(int calls, int warmup, double seconds) override {
    const json request{{"op", "sample"}, {"calls", calls}, {"warmup", warmup}, {"seconds", seconds}};
    return ask(Outcome::kRunFail, "was measured", request, [](const json& value) { return value.get<Samples>(); });
  }

 private:
  template <typename Read>
  auto ask(Outcome otherwise, const std::string& doing, const json& request, Read read) -> decltype(read(json())) {
    try {
      const auto answer = json::parse(process_.ask(request.dump(), timeout_s_));
      if (answer.contains("error")) {
        const auto& error = answer.at("error");
        throw Failure(outcome_of(error.at("outcome").get<std::string>()), error.at("reason").get<std::string>());
      }
      return read(answer.at("value"));
    } catch (const ProcessSilent&) {
      throw Failure(Outcome::kTimeout, "no answer within " + seconds_text() + " s while it " + doing);
    } catch (const ProcessDied& death) {
      throw Failure(otherwise, std::string(death.what()) + ", while it " + doing);
    } catch (const json::exception& error) {
      throw Failure(otherwise, std::string("its process answered nonsense: ") + error.what());
    }
  }

  std::string seconds_text() const {
    char text[32];
    std::snprintf(text, sizeof text, "%g", timeout_s_);
    return text;
  }

  Process process_;
  double timeout_s_;
};

json answer(LocalBench& bench, const json& request) {
  try {
    if (request.at("op") == "open") return {{"value", to_json(bench.open())}};
    const auto samples = bench.sample(request.at("calls").get<int>(), request.at("warmup").get<int>(),
                                      request.at("seconds").get<double>());
    return {{"value", samples}};
  } catch (const Failure& failure) {
    return {{"error", {{"outcome", name_of(failure.outcome)}, {"reason", failure.what()}}}};
  }
}

// Keeps standard output for the protocol and sends what libraries print there to standard error.
std::FILE* claim_standard_output() {
  std::FILE* answers = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return answers;
}

}  // namespace

std::unique_ptr<Bench> isolate(const Bundle& bundle, const Artifact& artifact, int threads, double timeout_s) {
  try {
    return std::make_unique<IsolatedBench>(bundle, artifact, threads, timeout_s);
  } catch (const std::runtime_error& error) {
    throw Failure(Outcome::kLoadFail, error.what());
  }
}

int serve(const std::filesystem::path& folder, const std::string& artifact, int threads) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left behind, not even by a runtime that hangs
#endif
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // a crash here is an outcome
  std::FILE* answers = claim_standard_output();
  const auto bundle = read_bundle(folder);
  LocalBench bench(bundle, choose(bundle, "", {artifact}).front(), threads);
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = answer(bench, json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace);
    std::fprintf(answers, "%s\n", text.c_str());
    std::fflush(answers);
  }
  return 0;
}

}  // namespace cross_backend

#endif
