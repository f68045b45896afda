// SHA-256, as FIPS 180-4 defines it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cross_backend {

class Sha256 {
 public:
  void update(std::string_view bytes);

  // Returns the 64 hexadecimal digits of all that was given. Called once, last.
  std::string hex();

 private:
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<char, 64> block_{};  // what does not fill a block yet
  std::size_t held_ = 0;          // bytes in it
  std::uint64_t size_ = 0;        // bytes in all
};

}  // namespace cross_backend
