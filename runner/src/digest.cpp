#include "digest.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "file.h"
#include "sha256.h"

namespace cross_backend {
namespace {

namespace fs = std::filesystem;

std::string digest_file(const fs::path& path) {
  File file(path);
  std::vector<char> block(64 << 10);
  Sha256 sha256;
  while (const auto size = file.read(block.data(), block.size())) sha256.update({block.data(), size});
  return sha256.hex();
}

}  // namespace

std::string digest_path(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return digest_file(path);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    // A link may lead out of the bundle.
    if (entry.is_symlink()) throw std::runtime_error(entry.path().filename().u8string() + " is a symbolic link");
    if (!entry.is_directory()) files.push_back(entry.path().lexically_relative(path));
  }
  std::sort(files.begin(), files.end());
  Sha256 sha256;
  for (const auto& file : files) {
    sha256.update(file.generic_u8string() + std::string(1, '\0') + digest_file(path / file) + "\n");
  }
  return sha256.hex();
}

}  // namespace cross_backend
