// The chain that quantised networks have most often, all of it in registers: two sources of int8, dequantised, added or
// multiplied, not below zero where a RELU follows, quantised. Each operation is rounded as the steps one by one are.
#pragma once

#include "narrow.h"
#include "rounded.h"

typedef struct {
  float scale[2], zero[2];  // of the sources
  float factor, to_zero;    // of the result
  int is_product, has_relu;
} int8_pair;

INLINE vf pair_vector(const int8_pair* p, const int is_product, vf a, vf b) {
  const vf x = vrounded(a - vset(p->zero[0]), vset(p->scale[0])), y = vrounded(b - vset(p->zero[1]), vset(p->scale[1]));
  vf made = x + y;
  if (is_product) made = x * y;
  if (p->has_relu) made = vrelu(made);
  made = vnearest(made * vset(p->factor)) + vset(p->to_zero);
  return vceil_at(vfloor_at(made, vset(INT8_MIN)), vset(INT8_MAX));
}

INLINE void pair_elements(const int8_pair* p, const int is_product, const int8_t* a, const int8_t* b, int8_t* to,
                          size_t count) {
  const int8_pair own = *p;  // which no store can change
  size_t i = 0;
#if defined(__AVX2__) && VL == 8
  for (; i + 4 * VL <= count; i += 4 * VL) {
    vf made[4];
    UNROLL for (int j = 0; j < 4; ++j) {
      made[j] = pair_vector(&own, is_product, vload_int8(a + i + j * VL), vload_int8(b + i + j * VL));
    }
    vstore_int8_twice(to + i, made[0], made[1], to + i + 2 * VL, made[2], made[3]);
  }
#endif
  for (; i + VL <= count; i += VL) {
    vstore_int8(to + i, pair_vector(&own, is_product, vload_int8(a + i), vload_int8(b + i)));
  }
  if (i == count) return;
  const size_t left = count - i;
  const vf x = vload_int8_part(a + i, left), y = vload_int8_part(b + i, left);
  vstore_int8_part(to + i, pair_vector(&own, is_product, x, y), left);
}

static void pair_row(const int8_pair* p, const int8_t* a, const int8_t* b, int8_t* to, size_t count) {
  p->is_product ? pair_elements(p, 1, a, b, to, count) : pair_elements(p, 0, a, b, to, count);
}
