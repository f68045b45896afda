#include "tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace cross_backend {
namespace {

using Number = std::complex<double>;

template <typename T>
Number read(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
Number read_complex(const std::uint8_t* bytes) {
  std::array<T, 2> parts;
  std::memcpy(parts.data(), bytes, sizeof parts);
  return {static_cast<double>(parts[0]), static_cast<double>(parts[1])};
}

Number read_bfloat16(const std::uint8_t* bytes) {
  std::uint16_t half;
  std::memcpy(&half, bytes, sizeof half);
  const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// IEEE 754 binary16: sign, 5 bits of exponent with bias 15, 10 bits of fraction.
Number read_float16(const std::uint8_t* bytes) {
  std::uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  if (exponent == 0x1F) {
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

Number read_bool(const std::uint8_t* bytes) { return *bytes ? 1.0 : 0.0; }

struct Type {
  const char* name;
  std::size_t size;
  bool floating;
  Number (*read)(const std::uint8_t*);
};

constexpr std::array<Type, 15> kTypes{{
    {"bfloat16", 2, true, read_bfloat16},
    {"bool", 1, false, read_bool},
    {"complex128", 16, true, read_complex<double>},
    {"complex64", 8, true, read_complex<float>},
    {"float16", 2, true, read_float16},
    {"float32", 4, true, read<float>},
    {"float64", 8, true, read<double>},
    {"int16", 2, false, read<std::int16_t>},
    {"int32", 4, false, read<std::int32_t>},
    {"int64", 8, false, read<std::int64_t>},
    {"int8", 1, false, read<std::int8_t>},
    {"uint16", 2, false, read<std::uint16_t>},
    {"uint32", 4, false, read<std::uint32_t>},
    {"uint64", 8, false, read<std::uint64_t>},
    {"uint8", 1, false, read<std::uint8_t>},
}};

const Type* find(const std::string& dtype) {
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& row) { return dtype == row.name; });
  return type == kTypes.end() ? nullptr : type;
}

// Calls visit(place in row-major order, place by strides) for every element.
template <typename Visit>
void walk(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides, Visit visit) {
  const auto count = element_count(shape);
  std::vector<std::int64_t> index(shape.size());
  for (std::uint64_t i = 0; i < count; ++i) {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis) place += index[axis] * strides[axis];
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(place));
    for (std::size_t axis = index.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
}

}  // namespace

std::size_t item_size(const std::string& dtype) {
  const auto* type = find(dtype);
  return type ? type->size : 0;
}

bool is_floating(const std::string& dtype) {
  const auto* type = find(dtype);
  return type && type->floating;
}

std::uint64_t element_count(const std::vector<std::int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t count = 1;
  for (const auto extent : shape) {
    if (extent < 0 || count > std::numeric_limits<std::int64_t>::max() / static_cast<std::uint64_t>(extent)) {
      throw std::overflow_error("its shape does not fit");
    }
    count *= static_cast<std::uint64_t>(extent);
  }
  return count;
}

std::string shown(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

void gather(Tensor& tensor, const void* source, const std::vector<std::int64_t>& strides) {
  const auto item = item_size(tensor.dtype);
  const auto* from = static_cast<const std::uint8_t*>(source);
  tensor.data.resize(element_count(tensor.shape) * item);
  walk(tensor.shape, strides, [&](std::size_t row, std::size_t place) {
    std::memcpy(tensor.data.data() + row * item, from + place * item, item);
  });
}

void scatter(const Tensor& tensor, void* target, const std::vector<std::int64_t>& strides) {
  const auto item = item_size(tensor.dtype);
  auto* to = static_cast<std::uint8_t*>(target);
  walk(tensor.shape, strides, [&](std::size_t row, std::size_t place) {
    std::memcpy(to + place * item, tensor.data.data() + row * item, item);
  });
}

Elements::Elements(const Tensor& tensor) : tensor_(tensor) {
  const auto* type = find(tensor.dtype);
  if (!type) throw std::invalid_argument("no numbers of type " + tensor.dtype);
  read_ = type->read;
  size_ = type->size;
}

std::vector<double> to_doubles(const Tensor& tensor, std::size_t limit) {
  if (!find(tensor.dtype)) return {};
  const Elements elements(tensor);
  std::vector<double> values(std::min(elements.size(), limit));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = elements[i].real();
  return values;
}

}  // namespace cross_backend
