#include "blocks.h"

#include <algorithm>
#include <numeric>

#include "ratio.h"

namespace cross_backend {
namespace {

constexpr int kBits = 5;  // of a round's number
static_assert(kRounds <= 1 << kBits);

int reversed(int number) {
  int mirrored = 0;
  for (int bit = 0; bit < kBits; ++bit) mirrored |= (number >> bit & 1) << (kBits - 1 - bit);
  return mirrored;
}

// Returns the rounds in an order of which every beginning is spread over all of them (van der Corput).
std::vector<int> spread() {
  std::vector<int> rounds(kRounds);
  std::iota(rounds.begin(), rounds.end(), 0);
  std::sort(rounds.begin(), rounds.end(), [](int a, int b) { return reversed(a) < reversed(b); });
  return rounds;
}

}  // namespace

std::vector<int> plan_blocks(double estimate_ms, int most_calls, double seconds) {
  const double affordable = std::max<double>(seconds * 1000 / std::max(estimate_ms, 1e-6), kMinRounds);
  const int calls = affordable < most_calls ? static_cast<int>(affordable) : most_calls;
  std::vector<int> blocks(kRounds, calls / kRounds);
  const auto rounds = spread();
  for (int i = 0; i < calls % kRounds; ++i) ++blocks[static_cast<std::size_t>(rounds[static_cast<std::size_t>(i)])];
  return blocks;
}

}  // namespace cross_backend
