#include "digest.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "sha256.h"

namespace cross_backend {
namespace {

namespace fs = std::filesystem;

std::string digest_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(1 << 20);
  Sha256 sha256;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    sha256.update({block.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (!file.eof()) throw std::runtime_error(path.filename().u8string() + " cannot be read");
  return sha256.hex();
}

}  // namespace

std::string digest_path(const fs::path& path) {
  if (fs::is_regular_file(path)) return digest_file(path);
  if (!fs::is_directory(path)) throw std::runtime_error(path.filename().u8string() + " is neither a file nor a folder");
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    // A link may lead out of the bundle.
    if (entry.is_symlink()) throw std::runtime_error(entry.path().filename().u8string() + " is a symbolic link");
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(path));
  }
  std::sort(files.begin(), files.end());
  Sha256 sha256;
  for (const auto& file : files) {
    sha256.update(file.generic_u8string() + std::string(1, '\0') + digest_file(path / file) + "\n");
  }
  return sha256.hex();
}

}  // namespace cross_backend
