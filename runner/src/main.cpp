// cross_backend_runner: tests every artifact of a bundle whose runtime is linked in, and ranks them; runs one file of
// ExecuTorch's; or serves as a bench.
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
#include "outcome.h"
#include "report.h"
#include "run_file.h"
#include "serve.h"
#include "text.h"

namespace cross_backend {
namespace {

struct Options {
  std::string path;
  bool bundled_program = false;
  bool serve = false;
  double lease_s = 30;
  std::string platform;
  std::vector<std::string> only;
  Settings settings;
  bool json = false;
  bool plain = false;
};

CommandLine command_line(Options& options) {
  auto& settings = options.settings;
  return {
      "Test every artifact of a bundle that can run here, or run one file: verified, timed, ranked.",
      std::string("cross_backend_runner ") + RUNNER_VERSION,
      {"BUNDLE|FILE", "",
       "folder that 'cross-backend bundle' wrote, or a .pte or .bpte file; also as --model-path FILE", &options.path, 0,
       0, "--model-path"},
      {
          {"--profile", "",
           "show the time of every iteration, and what each operator takes by the runtime's own profiler",
           &settings.profile},
          {"--bundled-program", "",
           "load inputs and expected outputs from the file, one of ExecuTorch's bundled programs (.bpte)",
           &options.bundled_program},
          {"--num-runs", "N", "maximum number of timed calls", &settings.num_runs, 1, 10'000'000, "--iterations"},
          {"--warmup", "N", "untimed calls at the start of each block", &settings.warmup, 0, 1'000'000},
          {"--seconds", "S", "most seconds of timed calls; six calls at least", &settings.seconds},
          {"--threads", "N", "CPU threads of each target", &settings.threads, 1, 1024},
          {"--timeout", "SECONDS", "longest lowering or answer", &settings.timeout_s},
          {"--only", "NAME", "only these artifacts, by name or target", &options.only},
          {"--platform", "NAME", "only this platform's artifacts, in its fallback order", &options.platform},
          {"--json", "", "print one JSON document on standard output", &options.json},
          {"--plain", "", "print no emoji; also where output is no terminal or NO_COLOR is set", &options.plain},
          {"--serve", "", "be a bench: answer questions on standard input, a line of JSON each", &options.serve},
          {"--lease", "SECONDS", "with --serve, end after so long without a question", &options.lease_s},
      },
      &options.serve,
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

int complain(const std::string& what, int status) {
  std::cerr << "cross_backend_runner: " << printable(what) << "\n";
  return status;
}

// A damaged sample is the bundle's fault, not a runtime's.
void check_sample(const TestCase& sample) {
  for (const auto* files :
       {&sample.inputs, &sample.expected, &sample.inputs2, &sample.expected2, &sample.scale, &sample.rounding}) {
    for (const auto& file : *files) read_tensor(file);
  }
  for (const auto& step : sample.steps) check_sample(step);
}

int run_bundle(const Options& options) {
  const auto bundle = read_bundle(options.path);
  const auto artifacts = choose(bundle, options.platform, options.only);
  if (options.settings.profile && artifacts.size() != 1) {
    throw UsageError("--profile takes one artifact; choose it with --only NAME.");
  }
  check_sample(bundle.sample);
  const bool shows_progress = isatty(2);
  const auto panel = run_panel(
      bundle, artifacts, options.settings, shows_progress ? show_progress : [](const std::string&, int, int) {});
  if (shows_progress) std::cerr << "\r\033[K" << std::flush;
  const auto machine = this_machine();
  const Report report{bundle, panel, options.settings, machine};
  std::cout << (options.json ? json_report(report) : text_report(report, options.plain || plain_output()))
            << std::flush;
  const auto& profile = panel.results.empty() ? std::nullopt : panel.results.front().profile;
  if (profile && !profile->fault.empty()) return complain(artifacts.front().name + ": " + profile->fault, kFailed);
  return std::cout ? status_of(panel) : kFailed;
}

// A file that cannot be run is a failure, not wrong usage.
int run_program(const Options& options) {
  if (!options.platform.empty() || !options.only.empty()) {
    throw UsageError(std::string(options.only.empty() ? "--platform" : "--only") + " does not go with a file.");
  }
  try {
    const Shown shown{options.json, options.plain || plain_output()};
    return run_file(options.path, options.bundled_program, options.settings, shown);
  } catch (const BundleError& error) {
    return complain(options.path + ": " + error.what(), kFailed);
  } catch (const Failure& error) {
    return complain(options.path + ": " + error.what(), kFailed);
  }
}

int run(const Options& options) {
  if (options.serve && !options.path.empty()) throw UsageError("--serve takes no " + options.path + ".");
  if (options.serve) return serve(options.lease_s);
  return options.bundled_program || is_program_file(options.path) ? run_program(options) : run_bundle(options);
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
    return std::cout ? cb::kDone : cb::kFailed;
  } catch (const cb::BundleError& error) {
    return cb::complain(options.path + ": " + error.what(), cb::kWrongUsage);
  } catch (const std::exception& error) {
    return cb::complain(error.what(), cb::kWrongUsage);
  }
}
