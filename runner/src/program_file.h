// One file of ExecuTorch's: a program (.pte), or a bundled program, which has test cases beside it (.bpte).
#pragma once

#include <filesystem>
#include <string>

#include "manifest.h"

namespace cross_backend {

enum class FileKind {
  kNone,  // no file, or one of something else
  kProgram,
  kBundledProgram,
};

// Tells by how a file begins, of whatever version it is.
FileKind kind_of_file(const std::filesystem::path& path);

// Reads a program that nothing vouches for: an artifact without a sample.
// Throws BundleError: missing, or no program.
Bundle read_program(const std::filesystem::path& path);

// Reads a bundled program, or the one that lies beside a program or its manifest; what `cross-backend export` says of
// it counts, where that is there. Throws BundleError: missing, damaged, none, or not what its manifest says;
// Unsupported: it holds what nobody can verify.
Bundle read_bundled_program(const std::filesystem::path& path);

}  // namespace cross_backend
