// Finishing: what whole sums of int8 become.
#pragma once

#include "narrow.h"
#include "rounded.h"

// What sums become, and where: row r begins at element `at[r]` of `out`, which is of int8 or of float32.
typedef struct {
  const float *scale, *offset;  // of the first column
  float low, high;
  int is_int8;
  char* out;
  const int64_t* at;
} finishing;

INLINE vf finished(const finishing* f, vi sums, vf scale, vf offset) {
  const vf made = vrounded(__builtin_convertvector(sums, vf), scale) + offset;
  return vceil_at(vfloor_at(made, vset(f->low)), vset(f->high));
}
