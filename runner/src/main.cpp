// cross_backend_runner: tests every artifact of a bundle whose runtime is linked in, and ranks them.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <iostream>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#else
#include <unistd.h>
#endif

#include "bench.h"
#include "report.h"
#include "text.h"

namespace cross_backend {
namespace {

struct Options {
  std::string bundle;
  std::string platform;
  std::vector<std::string> only;
  Settings settings;
  bool json = false;
  bool plain = false;
  std::string worker;  // an artifact's name: this process is one of an isolated bench
};

void declare(CLI::App& app, Options& options) {
  auto& settings = options.settings;
  app.add_option("BUNDLE", options.bundle, "Folder that 'cross-backend bundle' wrote")->required();
  app.add_option("--iterations", settings.iterations, "Most timed calls of each artifact")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  app.add_option("--warmup", settings.warmup, "Untimed calls at the start of each visit")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--seconds", settings.seconds, "Most seconds of timed calls of each artifact")->capture_default_str();
  app.add_option("--threads", settings.threads, "CPU threads of each artifact")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--timeout", settings.timeout_s, "Longest opening or visit, seconds")->capture_default_str();
  app.add_option("--only", options.only, "Only these artifacts, by name or target")->type_name("NAME");
  app.add_option("--platform", options.platform, "Only this platform's artifacts, in its fallback order")
      ->type_name("NAME");
  app.add_flag("--json", options.json, "Print one JSON document");
  app.add_flag("--plain", options.plain, "Print no emoji; also where output is no terminal or NO_COLOR is set");
  app.add_option("--worker", options.worker)->group("");
  app.set_version_flag("--version", std::string("cross_backend_runner ") + RUNNER_VERSION);
}

void check_positive(const char* name, double value) {
  if (!std::isfinite(value) || value <= 0) throw UsageError(std::string(name) + " must be a positive number.");
}

bool plain_output() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !isatty(1) || (no_color && *no_color) || (term && std::string(term) == "dumb");
}

void show_progress(const std::string& doing, int done, int total) {
  std::cerr << "\r\033[K" << doing << " (" << done + 1 << " of " << total << ")" << std::flush;
}

int run(const Options& options) {
  check_positive("--seconds", options.settings.seconds);
  check_positive("--timeout", options.settings.timeout_s);
  if (!options.worker.empty()) return serve(options.bundle, options.worker, options.settings.threads);
  const auto bundle = read_bundle(options.bundle);
  const auto artifacts = choose(bundle, options.platform, options.only);
  for (const auto& file : bundle.inputs) read_tensor(file);  // a damaged sample is the bundle's fault, not a runtime's
  for (const auto& file : bundle.expected) read_tensor(file);
  const bool shows_progress = isatty(2);
  const auto panel = run_panel(
      bundle, artifacts, options.settings, shows_progress ? show_progress : [](const std::string&, int, int) {});
  if (shows_progress) std::cerr << "\r\033[K" << std::flush;
  const auto machine = this_machine();
  const Report report{bundle, panel, options.settings, machine};
  std::cout << (options.json ? json_report(report) : text_report(report, options.plain || plain_output()))
            << std::flush;
  return succeeded(panel) && std::cout ? 0 : 1;
}

int complain(const std::string& what) {
  std::cerr << "cross_backend_runner: " << printable(what) << "\n";
  return 2;
}

}  // namespace
}  // namespace cross_backend

int main(int argc, char** argv) {
  namespace cb = cross_backend;
  cb::Options options;
  CLI::App app{"Test every artifact of a bundle that can run here: verified, timed, ranked."};
  app.name("cross_backend_runner");
  cb::declare(app, options);
  try {
    app.parse(argc, argv);
    return cb::run(options);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : cb::complain(error.what());
  } catch (const cb::BundleError& error) {
    return cb::complain(options.bundle + ": " + error.what());
  } catch (const std::exception& error) {
    return cb::complain(error.what());
  }
}
