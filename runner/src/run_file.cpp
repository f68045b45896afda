#include "run_file.h"

#include <iostream>

#include "bench.h"
#include "bundled_program.h"
#include "numbers.h"
#include "outcome.h"
#include "program_file.h"
#include "report.h"
#include "text.h"

namespace cross_backend {
namespace {

constexpr auto kUnverified = "unverified: it has no sample to compare with, so it is not timed";

int run_bundled(const std::filesystem::path& path, const Settings& settings, const Shown& shown) {
  const auto bundle = read_bundled_program(path);
  const auto panel = run_panel(bundle, bundle.artifacts, settings, [](const std::string&, int, int) {});
  const auto machine = this_machine();
  const Report report{bundle, panel, settings, machine};
  std::cout << (shown.json ? json_report(report) : file_report(report, shown.plain)) << std::flush;
  const auto& result = panel.results.front();
  const auto named = bundle.model + " on " + result.artifact.target + ": ";
  auto fault = result.reason.empty() ? "" : named + name_of(result.outcome) + ": " + result.reason;
  if (fault.empty() && result.profile && !result.profile->fault.empty()) fault = named + result.profile->fault;
  if (!fault.empty()) std::cerr << "cross_backend_runner: " << printable(fault) << "\n";
  return fault.empty() || result.outcome != Outcome::kOk ? status_of(panel) : kFailed;
}

int run_once(const std::filesystem::path& path, const Settings& settings, const Shown& shown) {
  if (kind_of_file(path) == FileKind::kBundledProgram || path.extension() == ".bpte") {
    if (std::error_code error; std::filesystem::exists(path, error)) {
      throw UsageError(path.u8string() + " is a bundled program; add --bundled-program.");
    }
  }
  if (settings.profile) {
    throw UsageError("--profile needs a sample to verify with, and " + path.u8string() + " has none.");
  }
  const auto bundle = read_program(path);
  const auto& artifact = bundle.artifacts.front();
  const auto bench = isolate(settings.timeout_s);
  bench->open({artifact, settings.threads, std::nullopt});
  const auto head = bench->run(std::nullopt).head;
  std::cout << (shown.json ? unverified_document(bundle.model, artifact.target, head, kUnverified)
                           : shown_text("⚠️ " + bundle.model + " on " + artifact.target + ": " + numbers(head, "%.6f") +
                                            " (random inputs); " + kUnverified + "\n",
                                        shown.plain))
            << std::flush;
  return kDone;
}

}  // namespace

bool is_program_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return false;
  return path.extension() == ".pte" || path.extension() == ".bpte" || kind_of_file(path) != FileKind::kNone;
}

int run_file(const std::filesystem::path& path, bool is_bundled, const Settings& settings, const Shown& shown) {
  const int status = is_bundled ? run_bundled(path, settings, shown) : run_once(path, settings, shown);
  return status == kDone && !std::cout ? kFailed : status;
}

}  // namespace cross_backend
