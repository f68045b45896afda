// SHA-256, as FIPS 180-4 defines it: the names are those of its sections 4.1.2 and 6.2.2.
#include "sha256.h"

#include <algorithm>

namespace cross_backend {
namespace {

using Word = std::uint32_t;

constexpr Word kK[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

constexpr Word rotr(Word x, int n) { return x >> n | x << (32 - n); }

Word word_at(const char* bytes) {
  const auto byte = [&](int i) { return Word{static_cast<unsigned char>(bytes[i])}; };
  return byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
}

// One round; the caller turns the names instead of moving eight words along.
inline void turn(Word a, Word b, Word c, Word& d, Word e, Word f, Word g, Word& h, Word scheduled) {
  const Word t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) + scheduled;
  d += t1;
  h = t1 + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));
}

void compress(std::array<Word, 8>& state, const char* block) {
  Word w[64];
  for (int t = 0; t < 16; ++t) w[t] = word_at(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const Word x = w[t - 15], y = w[t - 2];
    w[t] = (rotr(y, 17) ^ rotr(y, 19) ^ y >> 10) + w[t - 7] + (rotr(x, 7) ^ rotr(x, 18) ^ x >> 3) + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < 64; t += 8) {
    turn(a, b, c, d, e, f, g, h, kK[t] + w[t]);
    turn(h, a, b, c, d, e, f, g, kK[t + 1] + w[t + 1]);
    turn(g, h, a, b, c, d, e, f, kK[t + 2] + w[t + 2]);
    turn(f, g, h, a, b, c, d, e, kK[t + 3] + w[t + 3]);
    turn(e, f, g, h, a, b, c, d, kK[t + 4] + w[t + 4]);
    turn(d, e, f, g, h, a, b, c, kK[t + 5] + w[t + 5]);
    turn(c, d, e, f, g, h, a, b, kK[t + 6] + w[t + 6]);
    turn(b, c, d, e, f, g, h, a, kK[t + 7] + w[t + 7]);
  }
  const Word turned[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += turned[i];
}

}  // namespace

void Sha256::update(std::string_view bytes) {
  size_ += bytes.size();
  if (held_ > 0) {
    const auto count = std::min(bytes.size(), block_.size() - held_);
    std::copy_n(bytes.data(), count, block_.data() + held_);
    held_ += count;
    bytes.remove_prefix(count);
    if (held_ < block_.size()) return;
    compress(state_, block_.data());
  }
  for (; bytes.size() >= block_.size(); bytes.remove_prefix(block_.size())) compress(state_, bytes.data());
  std::copy(bytes.begin(), bytes.end(), block_.begin());
  held_ = bytes.size();
}

std::string Sha256::hex() {
  const std::uint64_t bits = size_ * 8;
  const auto zeros = (block_.size() + 56 - 1 - held_) % block_.size();  // up to the eight bytes that end a block
  std::string end = '\x80' + std::string(zeros, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bits >> shift & 0xff);
  update(end);
  std::string text;
  for (const Word word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
  }
  return text;
}

}  // namespace cross_backend
