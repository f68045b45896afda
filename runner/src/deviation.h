// Deviation: how far an output is from its reference, element by element, on a scale that no mask or outlier sets.
// cross_backend/deviation.py explains it and is the reference.
#pragma once

#include <complex>
#include <vector>

#include "tensor.h"

namespace cross_backend {

// Returns the scale of each element of a floating-point output: how much such elements change between the references
// for two inputs of the same shape and type, or how large they are where `second` is null.
std::vector<double> scale_of(const Tensor& first, const Tensor* second);

// Whether an output changed from one input to another by more than rounding may do: of the elements that changed,
// one in ten at least changed by more than the share `rounded` of its magnitude. Other types must differ somewhere.
bool moved(const Tensor& first, const Tensor& second, double rounded);

// Whether two elements are equal, NaN and infinities included.
bool same(std::complex<double> want, std::complex<double> got);

// Returns |want − got| / (|want| + scale); 0 where both are the same.
double deviation(std::complex<double> want, std::complex<double> got, double scale);

}  // namespace cross_backend
