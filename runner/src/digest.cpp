#include "digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace cross_backend {
namespace {

namespace fs = std::filesystem;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) fail();
  }

  void update(std::string_view bytes) {
    if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) fail();
  }

  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    if (EVP_DigestFinal_ex(context_.get(), digest.data(), &size) != 1) fail();
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      text += "0123456789abcdef"[digest[i] >> 4];
      text += "0123456789abcdef"[digest[i] & 15];
    }
    return text;
  }

 private:
  [[noreturn]] static void fail() { throw std::runtime_error("libcrypto cannot compute SHA-256"); }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

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
