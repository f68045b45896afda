// Tensors as they cross the seams: element type, shape, and row-major little-endian bytes.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cross_backend {

struct Tensor {
  std::string dtype;  // NumPy's spelling, plus "bfloat16"
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> data;
};

// Returns the bytes of one element, or 0 for a type that is not known.
std::size_t item_size(const std::string& dtype);

// Whether a type holds floating-point numbers, real or complex.
bool is_floating(const std::string& dtype);

// Returns the number of elements of a shape, or throws std::overflow_error where it does not fit or is negative.
std::uint64_t element_count(const std::vector<std::int64_t>& shape);

// Returns a shape as text: [1, 3, 224, 224].
std::string shown(const std::vector<std::int64_t>& shape);

// Copy elements between a tensor of known type and shape and memory where they lie with strides, which count elements.
void gather(Tensor& tensor, const void* source, const std::vector<std::int64_t>& strides);
void scatter(const Tensor& tensor, void* target, const std::vector<std::int64_t>& strides);

// The elements of a tensor of known type as numbers; the tensor lives longer.
class Elements {
 public:
  explicit Elements(const Tensor& tensor);
  std::size_t size() const { return tensor_.data.size() / size_; }
  std::complex<double> operator[](std::size_t index) const { return read_(tensor_.data.data() + index * size_); }

 private:
  const Tensor& tensor_;
  std::complex<double> (*read_)(const std::uint8_t*);
  std::size_t size_;
};

// Converts elements of any known type, at most `limit` of them; of complex ones the real parts.
std::vector<double> to_doubles(const Tensor& tensor, std::size_t limit);

}  // namespace cross_backend
