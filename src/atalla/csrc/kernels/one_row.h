// One row times a matrix that is known only at run time and read once, so that packing it would cost more than it
// saves: attention's queries and shares of one token. Sums are cut and added up as a tile's are.
#pragma once

#include "cut.h"
#include "vec.h"

enum {
  ABREAST = 4,       // vectors of sums at once
  FORE_BYTES = 6144  // how far before it is read a matrix is asked for
};

// Asks for what lies so far behind `at`; it may lie behind the matrix, where nothing comes of it.
INLINE void foresee(const float* at) { __builtin_prefetch((const void*)((uintptr_t)at + FORE_BYTES), 0, 2); }

// Whether a matrix lies so that one row can be multiplied without packing: its rows or its columns are dense.
INLINE int is_read_as_it_lies(int64_t k_stride, int64_t n_stride) { return k_stride == 1 || n_stride == 1; }

// Of the first slice the sum, of a later one what is there and its sum.
INLINE void put(float* out, vf sum, size_t count, int is_first) {
  if (count == VL) {
    vstore(out, is_first ? sum : (vf)(vload(out) + sum));
  } else {
    vstore_part(out, is_first ? sum : (vf)(vload_part(out, count) + sum), count);
  }
}

// A slice of the depth, where columns lie side by side.
INLINE void along_rows(const float* a, const float* b, int64_t k_stride, size_t depth, size_t columns, float* out,
                       int is_first) {
  size_t n = 0;
  for (; n + ABREAST * VL <= columns; n += ABREAST * VL) {
    vf sum[ABREAST];
    UNROLL for (int v = 0; v < ABREAST; ++v) sum[v] = vset(0.0f);
    for (size_t k = 0; k < depth; ++k) {
      const float* at = b + (int64_t)k * k_stride + n;
      UNROLL for (int v = 0; v < ABREAST; ++v) {
        foresee(at + v * VL);
        sum[v] = vadd_product(sum[v], vset(a[k]), vload(at + v * VL));
      }
    }
    UNROLL for (int v = 0; v < ABREAST; ++v) put(out + n + v * VL, sum[v], VL, is_first);
  }
  const size_t left = columns - n, whole = left / VL, part = left % VL;
  if (!left) return;
  vf sum[ABREAST];
  UNROLL for (int v = 0; v < ABREAST; ++v) sum[v] = vset(0.0f);
  for (size_t k = 0; k < depth; ++k) {
    const float* at = b + (int64_t)k * k_stride + n;
    UNROLL for (int v = 0; v < ABREAST; ++v) {
      if ((size_t)v < whole) sum[v] = vadd_product(sum[v], vset(a[k]), vload(at + v * VL));
    }
    if (part) sum[ABREAST - 1] = vadd_product(sum[ABREAST - 1], vset(a[k]), vload_part(at + whole * VL, part));
  }
  UNROLL for (int v = 0; v < ABREAST; ++v) {
    if ((size_t)v < whole) put(out + n + v * VL, sum[v], VL, is_first);
  }
  if (part) put(out + n + whole * VL, sum[ABREAST - 1], part, is_first);
}

// A slice of the depth, where columns are dense rows in memory: VL of them are turned in registers.
INLINE void along_columns(const float* a, const float* b, int64_t n_stride, size_t depth, size_t columns, float* out,
                          int is_first) {
  for (size_t n = 0; n < columns; n += VL) {
    const size_t count = columns - n < VL ? columns - n : VL;
    vf sum = vset(0.0f);
    for (size_t k = 0; k < depth; k += VL) {
      const size_t here = depth - k < VL ? depth - k : VL;
      vf x[VL];
      UNROLL for (size_t i = 0; i < VL; ++i) {
        const float* from = b + (int64_t)(n + (i < count ? i : 0)) * n_stride + k;
        foresee(from);
        x[i] = here == VL ? vload(from) : vload_part(from, here);
      }
      vtranspose(x);
      if (here == VL) {
        UNROLL for (size_t i = 0; i < VL; ++i) sum = vadd_product(sum, vset(a[k + i]), x[i]);
      } else {
        for (size_t i = 0; i < here; ++i) sum = vadd_product(sum, vset(a[k + i]), x[i]);
      }
    }
    put(out + n, sum, count, is_first);
  }
}

// out[n] = Σₖ a[k]·b[k][n], by one of the two.
INLINE void multiply_one_row(const float* a, const float* b, int64_t k_stride, int64_t n_stride, size_t depth,
                             size_t columns, float* out) {
  const size_t slice = cut_slices(1, depth).depth;
  for (size_t from = 0; from == 0 || from < depth; from += slice) {
    const size_t here = depth - from < slice ? depth - from : slice;
    const float* at = b + (int64_t)from * k_stride;
    if (n_stride == 1) {
      along_rows(a + from, at, k_stride, here, columns, out, from == 0);
    } else {
      along_columns(a + from, at, n_stride, here, columns, out, from == 0);
    }
    if (slice == 0) return;
  }
}
