// What happens to results before they are stored.
#pragma once

#include "../internal.h"
#include "vec.h"

typedef struct {
  int64_t act;
  float low, high;
} activation;

INLINE vf activated(int64_t act, vf x) {
  switch (act) {
    case AT_ACT_HARDSWISH:
      return vhardswish(x);
    case AT_ACT_HARDSIGMOID:
      return vhardsigmoid(x);
    case AT_ACT_SIGMOID:
      return vsigmoid(x);
    case AT_ACT_SILU:
      return x * vsigmoid(x);
    case AT_ACT_GELU:
      return vgelu(x);
    case AT_ACT_GELU_TANH:
      return vgelu_tanh(x);
    case AT_ACT_TANH:
      return vtanh(x);
    default:
      return x;
  }
}

// Applies an activation that is more than two bounds to floats that were just stored.
static void activate(int64_t act, float* at, size_t count) {
#define ACTIVATE(ACT)                                                                             \
  case ACT: {                                                                                     \
    size_t i = 0;                                                                                 \
    for (; i + VL <= count; i += VL) vstore(at + i, activated(ACT, vload(at + i)));               \
    if (i < count) vstore_part(at + i, activated(ACT, vload_part(at + i, count - i)), count - i); \
    break;                                                                                        \
  }
  switch (act) {
    ACTIVATE(AT_ACT_HARDSWISH)
    ACTIVATE(AT_ACT_HARDSIGMOID)
    ACTIVATE(AT_ACT_SIGMOID)
    ACTIVATE(AT_ACT_SILU)
    ACTIVATE(AT_ACT_GELU)
    ACTIVATE(AT_ACT_GELU_TANH)
    ACTIVATE(AT_ACT_TANH)
    default:
      break;
  }
#undef ACTIVATE
}

// Bounds are applied to vectors in registers; whether there is something else to do afterwards.
INLINE activation read_activation(const int64_t* words) {
  activation found = {words[0], -INFINITY, INFINITY};
  if (found.act == AT_ACT_RELU) found.low = 0.0f;
  if (found.act == AT_ACT_CLAMP) {
    found.low = (float)at_number(words[1]);
    found.high = (float)at_number(words[2]);
  }
  return found;
}

INLINE int is_bounds(int64_t act) { return act == AT_ACT_NONE || act == AT_ACT_RELU || act == AT_ACT_CLAMP; }
