// Tensors in files: little-endian, row-major bytes from a place on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "node.h"
#include "tensor.h"

namespace cross_backend {

struct TensorFile {
  std::filesystem::path path;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t offset;
  std::uint64_t size_bytes;
  std::string sha256;    // of the whole file; empty where nobody says it
  bool is_part = false;  // of a file that goes on behind it
};

// Reads dtype, shape, offset, size_bytes and sha256 of a row. Throws BundleError: they do not fit together.
TensorFile read_tensor_file(const Node& row, std::filesystem::path path);

// Reads a row that needs no more than dtype and shape.
TensorFile read_plain_tensor_file(const Node& row, std::filesystem::path path);

// Reads one tensor. Throws BundleError: missing, of another length, or its digest is another one.
Tensor read_tensor(const TensorFile& description);
std::vector<Tensor> read_tensors(const std::vector<TensorFile>& files);

}  // namespace cross_backend
