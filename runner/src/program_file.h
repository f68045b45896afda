// One file of ExecuTorch's: a program (.pte), or a bundled program, which has test cases beside it (.bpte).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "manifest.h"

namespace cross_backend {

inline constexpr std::uint64_t kMaxProgramBytes = std::uint64_t{4} << 30;

enum class FileKind {
  kNone,  // no file, or one of something else
  kProgram,
  kBundledProgram,
};

// Recognises a file by how it begins, of whatever version it is.
FileKind kind_of_file(const std::filesystem::path& path);

// Reads a file. Throws BundleError: missing, no regular file, or larger than `most` bytes.
std::string read_whole(const std::filesystem::path& path, std::uint64_t most);

// Returns the id of each delegate's call in a program. Throws std::out_of_range where its parts do not fit together.
std::vector<std::string> delegates_in(std::string_view program);

// Describes the artifact in a file by the delegates that it calls; there is nothing to verify it with.
Bundle described_program(const std::filesystem::path& path, const std::vector<std::string>& ids);

// Reads a program that nothing vouches for. Throws BundleError: missing, or no program.
Bundle read_program(const std::filesystem::path& path);

}  // namespace cross_backend
