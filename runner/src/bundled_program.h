// Bundled programs of ExecuTorch's (.bpte): a program with inputs and expected outputs, as test cases.
#pragma once

#include <filesystem>

#include "manifest.h"

namespace cross_backend {

// Reads a bundled program, or the one that lies beside a program or its manifest; what `cross-backend export` says of
// it counts, where that is there. Throws BundleError: missing, damaged, none, or not what its manifest says;
// Unsupported: it holds what nobody can verify.
Bundle read_bundled_program(const std::filesystem::path& path);

}  // namespace cross_backend
