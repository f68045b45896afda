// SHA-256 of payloads and samples, as docs/bundle.md defines it.
#pragma once

#include <filesystem>
#include <string>

namespace cross_backend {

// Returns 64 hexadecimal digits for a file, or for a folder's files with their names.
// Throws std::runtime_error where something is missing, cannot be read, or is neither file nor folder.
std::string digest_path(const std::filesystem::path& path);

}  // namespace cross_backend
