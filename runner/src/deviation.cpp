#include "deviation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace cross_backend {
namespace {

constexpr double kQuantile = 0.75;  // of the changes along a line: three quarters may be masked, one may be outliers
constexpr double kMoved = 0.9;      // of the elements that changed: one in ten moved by more than rounding
constexpr std::size_t kFewest = 8;  // elements along an axis from which on they have a scale of their own

// Returns a quantile between the two nearest values, as NumPy does; there is at least one value. Reorders them.
double quantile(std::vector<double>& values, double which = kQuantile) {
  using Difference = std::vector<double>::difference_type;
  const double place = which * static_cast<double>(values.size() - 1);
  const auto lower = values.begin() + static_cast<Difference>(place);
  std::nth_element(values.begin(), lower, values.end());
  const double share = place - std::floor(place);
  if (share == 0) return *lower;
  const double upper = *std::min_element(lower + 1, values.end());
  return share < 0.5 ? *lower + (upper - *lower) * share : upper - (upper - *lower) * (1 - share);
}

std::vector<double> changes(const Tensor& first, const Tensor* second) {
  const Elements a(first), b(second ? *second : first);
  std::vector<double> change(a.size());
  for (std::size_t i = 0; i < change.size(); ++i) {
    const double moved = std::abs(second ? a[i] - b[i] : a[i]);
    change[i] = std::isfinite(moved) ? moved : 0;
  }
  return change;
}

// Returns the quantile of all elements; of those that change, where most are masked.
double whole(const std::vector<double>& change) {
  std::vector<double> moved;
  std::copy_if(change.begin(), change.end(), std::back_inserter(moved), [](double one) { return one > 0; });
  if (moved.size() * 2 > change.size()) moved = change;
  return moved.empty() ? 0 : quantile(moved);
}

// Raises the scale of each element to the quantile of its line along an axis, whose elements lie `stride` apart.
void raise(std::vector<double>& scale, const std::vector<double>& change, std::size_t extent, std::size_t stride) {
  std::vector<double> line(extent);
  for (std::size_t i = 0; i < change.size() / extent; ++i) {
    const auto start = i / stride * stride * extent + i % stride;
    for (std::size_t k = 0; k < extent; ++k) line[k] = change[start + k * stride];
    const double found = quantile(line);
    for (std::size_t k = 0; k < extent; ++k) scale[start + k * stride] = std::max(scale[start + k * stride], found);
  }
}

}  // namespace

std::vector<double> scale_of(const Tensor& first, const Tensor* second) {
  const auto change = changes(first, second);
  std::vector<double> scale(change.size(), whole(change));
  std::size_t stride = change.size();
  for (const auto signed_extent : first.shape) {
    const auto extent = static_cast<std::size_t>(signed_extent);
    if (change.empty()) break;
    stride /= extent;
    if (extent >= kFewest && extent < change.size()) raise(scale, change, extent, stride);
  }
  return scale;
}

bool moved(const Tensor& first, const Tensor& second, double rounded) {
  if (first.shape != second.shape || first.dtype != second.dtype) return true;
  if (!is_floating(first.dtype)) return first.data != second.data;
  const Elements a(first), b(second);
  std::vector<double> shares;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double share = std::abs(a[i] - b[i]) / (std::abs(a[i]) + std::abs(b[i]));
    if (std::isfinite(share) && share > 0) shares.push_back(share);
  }
  return !shares.empty() && quantile(shares, kMoved) > rounded;
}

bool same(std::complex<double> want, std::complex<double> got) {
  const auto is_nan = [](std::complex<double> one) { return std::isnan(one.real()) || std::isnan(one.imag()); };
  return want == got || (is_nan(want) && is_nan(got));
}

double deviation(std::complex<double> want, std::complex<double> got, double scale) {
  if (same(want, got)) return 0;
  const double found = std::abs(want - got) / (std::abs(want) + scale);
  return std::isnan(found) ? std::numeric_limits<double>::infinity() : found;
}

}  // namespace cross_backend
