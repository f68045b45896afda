// What happens to results before they are stored.
#pragma once

#include "elementary.h"
#include "rows.h"

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

// GELU of the rows of a tile of two vectors, two rows together, as far as they are pairs; returns how many those are.
INLINE size_t gelu_pairs(const rows* at, size_t first, size_t count, size_t column) {
  size_t r = 0;
  for (; r + 2 <= count; r += 2) {
    float *above = row_at(at, first + r) + column, *below = row_at(at, first + r + 1) + column;
    vf x[4] = {vload(above), vload(above + VL), vload(below), vload(below + VL)};
    vgelu_all(x, 4);
    vstore(above, x[0]);
    vstore(above + VL, x[1]);
    vstore(below, x[2]);
    vstore(below + VL, x[3]);
  }
  return r;
}

// Applies an activation that is more than two bounds to floats that were just stored: rows from the one numbered
// `first` on, `wide` of each from a column on. Many of them share the constants.
static void activate_rows(int64_t act, const rows* at, size_t first, size_t count, size_t column, size_t wide) {
#define ACTIVATE(ACT)                                                                              \
  case ACT:                                                                                        \
    for (size_t r = done; r < count; ++r) {                                                        \
      float* row = row_at(at, first + r) + column;                                                 \
      size_t i = 0;                                                                                \
      for (; i + VL <= wide; i += VL) vstore(row + i, activated(ACT, vload(row + i)));             \
      if (i < wide) vstore_part(row + i, activated(ACT, vload_part(row + i, wide - i)), wide - i); \
    }                                                                                              \
    break;
  const size_t done = VL == 8 && act == AT_ACT_GELU && wide == 2 * VL ? gelu_pairs(at, first, count, column) : 0;
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

INLINE void activate(int64_t act, float* at, size_t count) {
  const rows row = {.first = at};
  activate_rows(act, &row, 0, 1, 0, count);
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
