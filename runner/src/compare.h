// Outputs against the bundle's expectation; cross_backend/verify.py is the reference.
#pragma once

#include <string>
#include <vector>

#include "limits.h"
#include "tensor.h"

namespace cross_backend {

using Tensors = std::vector<Tensor>;

// What a bundle expects.
struct Expectation {
  std::vector<Tensors> outputs;  // for each input of the sample, of which there are one or two
  Tensors scale;                 // of each output, in its shape; none where the bundle does not tell
  Tensors rounding;              // one number: what float32's rounding changes; none where the bundle does not tell
};

struct Comparison {
  double max_abs;  // largest absolute difference; NaN where outputs cannot be compared
  double max_rel;  // largest deviation of an element (deviation.h)
  double sqnr_db;  // 10·log10(Σ expected² / Σ (output − expected)²); infinite where they are equal
  double tolerance;
  bool right;
  std::string reason;    // why they are wrong, in one clause
  std::string unproved;  // why equal outputs prove nothing, in one clause; empty where they prove something
};

// Returns what a later call expects, of which each element is judged on its scale there or in the first call, the
// larger one, and by the rounding of both.
Expectation joined(const Expectation& first, const Expectation& step);

// Compares pairwise the outputs for each input. Whole numbers and booleans must be equal, and so must be what is NaN or
// infinite.
Comparison compare_outputs(const Expectation& expected, const std::vector<Tensors>& outputs, const Limits& limits);

}  // namespace cross_backend
