// Random inputs for a program that has no sample.
#pragma once

#include <vector>

#include "tensor.h"

namespace cross_backend {

// Draws inputs that fit, the same ones each time: standard normal floats, integers 0 and 1, fair booleans.
// Throws Failure where they are too many to draw.
std::vector<Tensor> random_inputs(std::vector<Tensor> forms);

}  // namespace cross_backend
