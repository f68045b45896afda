// Outputs against the bundle's expectation.
#pragma once

#include <string>
#include <vector>

#include "tensor.h"

namespace cross_backend {

struct Comparison {
  double max_abs;  // largest absolute difference; NaN where outputs cannot be compared
  double max_rel;  // largest absolute difference of an output over the largest magnitude of its expectation
  double sqnr_db;  // 10·log10(Σ expected² / Σ (output − expected)²); infinite where they are equal
  double tolerance;
  bool right;
  std::string reason;  // why they are wrong, in one clause
};

// Compares pairwise. Integers and booleans must be equal, and so must NaN and infinite elements.
Comparison compare_outputs(const std::vector<Tensor>& expected, const std::vector<Tensor>& outputs, double tolerance);

}  // namespace cross_backend
