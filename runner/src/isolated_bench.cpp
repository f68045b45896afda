// The bench in a process of its own: this program once more, which serves (serve.h).
#include "bench.h"

#ifdef _WIN32

namespace cross_backend {

std::unique_ptr<Bench> isolate(double) { return std::make_unique<LocalBench>(); }

}  // namespace cross_backend

#else

#include <cstdio>

#include "outcome.h"
#include "process.h"
#include "text.h"
#include "wire.h"

namespace cross_backend {
namespace {

using nlohmann::json;

class IsolatedBench final : public Bench {
 public:
  // Its parent waits for others between two questions, so that it has no lease.
  explicit IsolatedBench(double timeout_s) : process_({"--serve", "--lease", "1e9"}), timeout_s_(timeout_s) {}

  Opened open(const Subject& subject) override {
    return ask("Open", "was opened", wire::to_json(subject), wire::opened_from, Outcome::kLoadFail);
  }

  Verified verify(const TestCase& given, const Limits& limits) override {
    return ask("Verify", "was verified", wire::to_json(given, limits), wire::verified_from);
  }

  Ran run(const std::optional<std::filesystem::path>& folder) override {
    return ask("Run", "was run", {{"outputs", folder ? json(folder->u8string()) : json()}}, wire::ran_from);
  }

  Timed sample(int calls, int warmup, double seconds) override {
    const json arguments{{"calls", calls}, {"warm_up", warmup}, {"seconds", seconds}};
    return ask("Sample", "was measured", arguments, wire::timed_from);
  }

  std::vector<Timing> profile(int runs) override {
    return ask("Profile", "was profiled", {{"runs", runs}}, wire::timings_from);
  }

 private:
  template <typename Read>
  auto ask(const char* question, const std::string& doing, const json& arguments, Read read,
           Outcome otherwise = Outcome::kRunFail) -> decltype(read(json())) {
    const json request{{"question", std::string(":") + question}, {"arguments", arguments}};
    try {
      const auto answer = json::parse(process_.ask(request.dump(), timeout_s_));
      if (answer.contains("error")) fail(answer.at("error"));
      return read(answer.at("value"));
    } catch (const ProcessSilent&) {
      throw Failure(Outcome::kTimeout, "no answer within " + seconds_text() + " s while it " + doing);
    } catch (const ProcessDied& death) {
      throw Failure(otherwise, std::string(death.what()) + ", while it " + doing);
    } catch (const json::exception& error) {
      throw Failure(otherwise, std::string("its process answered nonsense: ") + error.what());
    }
  }

  [[noreturn]] static void fail(const json& error) {
    const auto type = error.at("type").get<std::string>();
    const auto text = [&](const char* key) { return error.at(key).get<std::string>(); };
    if (type == "UnavailableError") throw Unavailable(text("reason"), text("remedy"));
    if (type == "UnsupportedError") throw Unsupported(text("text"));
    throw Failure(type == "LoadError" || type == "ArtifactError" ? Outcome::kLoadFail : Outcome::kRunFail,
                  text("text"));
  }

  std::string seconds_text() const {
    char text[32];
    std::snprintf(text, sizeof text, "%g", timeout_s_);
    return text;
  }

  Process process_;
  double timeout_s_;
};

}  // namespace

std::unique_ptr<Bench> isolate(double timeout_s) {
  try {
    return std::make_unique<IsolatedBench>(timeout_s);
  } catch (const std::runtime_error& error) {
    throw Failure(Outcome::kLoadFail, error.what());
  }
}

}  // namespace cross_backend

#endif
