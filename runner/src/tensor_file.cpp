#include "tensor_file.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include "digest.h"
#include "file.h"
#include "outcome.h"

namespace cross_backend {
namespace {

constexpr std::size_t kMaxRank = 32;
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{2} << 30;

TensorFile read_form(const Node& row, std::filesystem::path path) {
  TensorFile file{std::move(path), row["dtype"].text(), {}, 0, 0, ""};
  for (const auto& extent : row["shape"].list(kMaxRank)) {
    const auto size = extent.count();
    if (size > std::numeric_limits<std::int32_t>::max()) extent.fail("does not fit");
    file.shape.push_back(static_cast<std::int64_t>(size));
  }
  const auto item = item_size(file.dtype);
  if (item == 0) row["dtype"].fail("names no known type");
  try {
    const auto elements = element_count(file.shape);
    file.size_bytes = elements > kMaxTensorBytes / item ? kMaxTensorBytes + 1 : elements * item;
  } catch (const std::overflow_error&) {
    row["shape"].fail("does not fit");
  }
  return file;
}

}  // namespace

TensorFile read_tensor_file(const Node& row, std::filesystem::path path) {
  auto file = read_form(row, std::move(path));
  if (row["size_bytes"].count() != file.size_bytes || file.size_bytes > kMaxTensorBytes) {
    row["size_bytes"].fail("does not agree with shape and dtype, or is more than 2 GiB");
  }
  file.offset = row["offset"].count();
  file.sha256 = row["sha256"].sha256();
  return file;
}

TensorFile read_plain_tensor_file(const Node& row, std::filesystem::path path) {
  auto file = read_form(row, std::move(path));
  if (file.size_bytes > kMaxTensorBytes) row["shape"].fail("takes more than 2 GiB");
  if (const auto digest = row.find("sha256")) file.sha256 = digest->sha256();
  if (const auto offset = row.find("offset")) file.offset = offset->count();
  if (const auto part = row.find("is_part")) file.is_part = part->flag();
  return file;
}

std::vector<Tensor> read_tensors(const std::vector<TensorFile>& files) {
  std::vector<Tensor> tensors;
  for (const auto& file : files) tensors.push_back(read_tensor(file));
  return tensors;
}

Tensor read_tensor(const TensorFile& description) {
  const auto name = description.path.filename().u8string();
  try {
    File file(description.path);
    const auto& [offset, size] = std::pair(description.offset, description.size_bytes);
    const bool fits = offset <= file.size() && size <= file.size() - offset;
    if (!fits || (file.size() > offset + size && !description.is_part)) {
      throw BundleError(name + " is not as long as " + (description.sha256.empty() ? "its shape" : "manifest.json") +
                        " says.");
    }
    if (!description.sha256.empty() && digest_path(description.path) != description.sha256) {
      throw BundleError(name + " is not the file that manifest.json describes (its sha256 differs): it was changed.");
    }
    file.seek(offset);
    Tensor tensor{description.dtype, description.shape, std::vector<std::uint8_t>(size)};
    if (file.read(tensor.data.data(), tensor.data.size()) == tensor.data.size()) return tensor;
  } catch (const BundleError&) {
    throw;
  } catch (const std::runtime_error& fault) {
    throw BundleError(std::string(fault.what()) + ".");
  }
  throw BundleError(name + " became shorter while it was read.");
}

}  // namespace cross_backend
