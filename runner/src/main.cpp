// cross_backend_runner: tests every artifact of a bundle whose runtime is linked in, and ranks them.
#include <cstdlib>
#include <iostream>
#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#else
#include <unistd.h>
#endif

#include "bench.h"
#include "options.h"
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

CommandLine command_line(Options& options) {
  auto& settings = options.settings;
  return {
      "Test every artifact of a bundle that can run here: verified, timed, ranked.",
      std::string("cross_backend_runner ") + RUNNER_VERSION,
      {"BUNDLE", "", "Folder that 'cross-backend bundle' wrote", &options.bundle},
      {
          {"--iterations", "N", "Most timed calls of each artifact", &settings.iterations, 1, 10'000'000},
          {"--warmup", "N", "Untimed calls at the start of each visit", &settings.warmup, 0, 1'000'000},
          {"--seconds", "N", "Most seconds of timed calls of each artifact", &settings.seconds},
          {"--threads", "N", "CPU threads of each artifact", &settings.threads, 1, 1024},
          {"--timeout", "N", "Longest opening or visit, seconds", &settings.timeout_s},
          {"--only", "NAME", "Only these artifacts, by name or target", &options.only},
          {"--platform", "NAME", "Only this platform's artifacts, in its fallback order", &options.platform},
          {"--json", "", "Print one JSON document", &options.json},
          {"--plain", "", "Print no emoji; also where output is no terminal or NO_COLOR is set", &options.plain},
          {"--worker", "NAME", "", &options.worker},
      },
  };
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
  if (!options.worker.empty()) return serve(options.bundle, options.worker, options.settings.threads);
  const auto bundle = read_bundle(options.bundle);
  const auto artifacts = choose(bundle, options.platform, options.only);
  for (const auto* files :
       {&bundle.inputs, &bundle.expected, &bundle.inputs2, &bundle.expected2, &bundle.scale, &bundle.rounding}) {
    for (const auto& file : *files) read_tensor(file);  // a damaged sample is the bundle's fault, not a runtime's
  }
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
  try {
    const auto shown = cb::parse(cb::command_line(options), {argv + 1, argv + argc});
    if (shown.empty()) return cb::run(options);
    std::cout << shown << std::flush;
    return std::cout ? 0 : 1;
  } catch (const cb::BundleError& error) {
    return cb::complain(options.bundle + ": " + error.what());
  } catch (const std::exception& error) {
    return cb::complain(error.what());
  }
}
