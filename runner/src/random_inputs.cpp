#include "random_inputs.h"

#include <cmath>
#include <cstring>
#include <random>

#include "outcome.h"

namespace cross_backend {
namespace {

constexpr std::uint64_t kMostDrawn = 1 << 28;
constexpr std::uint_fast64_t kInputSeed = 0;
constexpr double kTwoPi = 6.283185307179586;

// The standard says what the generator returns, and leaves its distributions to each library; these are our own.
class Numbers {
 public:
  // Returns a number above 0, and at most 1.
  double uniform() { return (static_cast<double>(random_() >> 11) + 1) * 0x1p-53; }

  // By Box and Muller.
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(kTwoPi * uniform()); }

  bool fair() { return (random_() & 1) != 0; }

 private:
  std::mt19937_64 random_{kInputSeed};
};

std::uint16_t to_bfloat16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Of small numbers, as a normal distribution draws them; what is below 2^-14 becomes 0.
std::uint16_t to_float16(float value) {
  int exponent = 0;
  const auto fraction = static_cast<int>(std::lround(std::frexp(std::abs(value), &exponent) * 2048));
  if (fraction == 0 || exponent < -13) return 0;
  const int bits = ((exponent + 14) << 10) + (fraction - 1024);
  return static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000 : 0));
}

template <typename Item>
void put(std::uint8_t*& place, Item item) {
  std::memcpy(place, &item, sizeof item);
  place += sizeof item;
}

void draw(Tensor& tensor, Numbers& numbers) {
  const auto count = element_count(tensor.shape);
  if (count > kMostDrawn) {
    throw Failure(Outcome::kRunFail, "an input is " + tensor.dtype + shown(tensor.shape) + ", and more than " +
                                         std::to_string(kMostDrawn) + " numbers are not drawn at random.");
  }
  const auto item = item_size(tensor.dtype);
  tensor.data.assign(count * item, 0);
  const bool is_complex = tensor.dtype.rfind("complex", 0) == 0;
  auto* place = tensor.data.data();
  for (std::uint64_t i = 0; i < (is_complex ? 2 * count : count); ++i) {
    if (!is_floating(tensor.dtype)) {
      *place = numbers.fair() ? 1 : 0;  // little-endian
      place += item;
      continue;
    }
    const double value = numbers.normal();
    switch (is_complex ? item / 2 : item) {
      case 8:
        put(place, value);
        break;
      case 4:
        put(place, static_cast<float>(value));
        break;
      default:
        put(place, (tensor.dtype == "bfloat16" ? to_bfloat16 : to_float16)(static_cast<float>(value)));
    }
  }
}

}  // namespace

std::vector<Tensor> random_inputs(std::vector<Tensor> forms) {
  Numbers numbers;
  for (auto& tensor : forms) draw(tensor, numbers);
  return forms;
}

}  // namespace cross_backend
