// Runs one file of ExecuTorch's, as `cross-backend run FILE` does.
#pragma once

#include <filesystem>

#include "panel.h"

namespace cross_backend {

struct Shown {
  bool json;
  bool plain;
};

// Whether a path is a file for this, or is called like one.
bool is_program_file(const std::filesystem::path& path);

// Verifies a bundled program on its own test cases and times it, or runs a program once on random inputs.
// Returns the exit status. Throws BundleError, UsageError, Failure.
int run_file(const std::filesystem::path& path, bool is_bundled, const Settings& settings, const Shown& shown);

}  // namespace cross_backend
