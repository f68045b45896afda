// Fold: the dims of a view in two groups, those that are kept and those that an item goes through; sums of the latter.
#pragma once

#include "walk.h"

// Dims of a view in two groups: those that are kept, one item each, and those that an item goes through.
typedef struct {
  const at_call* call;
  unsigned kept, gone;
  int64_t kept_dim[AT_DIMS], gone_dim[AT_DIMS];
  int64_t kept_src[AT_DIMS], kept_dst[AT_DIMS], gone_src[AT_DIMS], gone_dst[AT_DIMS];
  size_t items, length;  // length: of the innermost dim that an item goes through
  size_t each;           // kept elements of an item of the pool
} fold;

INLINE fold fold_of(const at_call* call, uint64_t mask) {
  const at_view *src = &call->src[0], *dst = &call->dst;
  fold f = {.call = call, .items = 1};
  for (unsigned i = 0; i < src->rank; ++i) {
    if (mask >> i & 1) {
      f.gone_dim[f.gone] = src->dim[i];
      f.gone_src[f.gone] = src->stride[i];
      f.gone_dst[f.gone++] = dst->stride[i];
    } else {
      f.kept_dim[f.kept] = src->dim[i];
      f.kept_src[f.kept] = src->stride[i];
      f.kept_dst[f.kept++] = dst->stride[i];
      f.items *= (size_t)src->dim[i];
    }
  }
  if (!f.gone) {
    f.gone = 1;
    f.gone_dim[0] = 1;
  }
  f.length = (size_t)f.gone_dim[f.gone - 1];
  return f;
}

INLINE void fold_at(const fold* f, size_t item, int64_t* src, int64_t* dst) {
  *src = *dst = 0;
  for (unsigned i = f->kept; i-- > 0;) {
    const int64_t index = (int64_t)(item % (size_t)f->kept_dim[i]);
    item /= (size_t)f->kept_dim[i];
    *src += index * f->kept_src[i];
    *dst += index * f->kept_dst[i];
  }
}

// Rows of the innermost dim that an item goes through.
INLINE size_t fold_rows(const fold* f) {
  size_t rows = 1;
  for (unsigned i = 0; i + 1 < f->gone; ++i) rows *= (size_t)f->gone_dim[i];
  return rows;
}

INLINE int64_t fold_row(const fold* f, size_t row, const int64_t* strides) {
  int64_t offset = 0;
  for (unsigned i = f->gone - 1; i-- > 0;) {
    offset += (int64_t)(row % (size_t)f->gone_dim[i]) * strides[i];
    row /= (size_t)f->gone_dim[i];
  }
  return offset;
}

enum { TOGETHER = 4 };  // sums that do not wait for each other

INLINE float total_of(const vf sums[TOGETHER]) { return vtotal((sums[0] + sums[1]) + (sums[2] + sums[3])); }

// Sums in pairs of halves, so that rounding errors grow with the logarithm of the count.
static float sum_row(const float* at, int64_t step, size_t count) {
  if (count > 256) {
    const size_t half = count / 2 / VL * VL;
    return sum_row(at, step, half) + sum_row(at + (int64_t)half * step, step, count - half);
  }
  float total = 0;
  size_t i = 0;
  if (step == 1) {
    vf sums[TOGETHER] = {{0}};
    for (; i + TOGETHER * VL <= count; i += TOGETHER * VL) {
      UNROLL for (int j = 0; j < TOGETHER; ++j) sums[j] += vload(at + i + j * VL);
    }
    for (; i + VL <= count; i += VL) sums[0] += vload(at + i);
    total = total_of(sums);
  }
  for (; i < count; ++i) total += at[(int64_t)i * step];
  return total;
}

static float squares_row(const float* at, int64_t step, size_t count, float mean) {
  if (count > 256) {
    const size_t half = count / 2 / VL * VL;
    return squares_row(at, step, half, mean) + squares_row(at + (int64_t)half * step, step, count - half, mean);
  }
  float total = 0;
  size_t i = 0;
  if (step == 1) {
    vf sums[TOGETHER] = {{0}};
    for (; i + TOGETHER * VL <= count; i += TOGETHER * VL) {
      UNROLL for (int j = 0; j < TOGETHER; ++j) {
        const vf x = vload(at + i + j * VL) - vset(mean);
        sums[j] = vadd_product(sums[j], x, x);
      }
    }
    for (; i + VL <= count; i += VL) {
      const vf x = vload(at + i) - vset(mean);
      sums[0] = vadd_product(sums[0], x, x);
    }
    total = total_of(sums);
  }
  for (; i < count; ++i) {
    const float x = at[(int64_t)i * step] - mean;
    total += x * x;
  }
  return total;
}

static float fold_sum(const fold* f, const float* src) {
  double total = 0;
  const size_t rows = fold_rows(f);
  for (size_t row = 0; row < rows; ++row) {
    total += sum_row(src + fold_row(f, row, f->gone_src), f->gone_src[f->gone - 1], f->length);
  }
  return (float)total;
}

static float fold_squares(const fold* f, const float* src, float mean) {
  double total = 0;
  const size_t rows = fold_rows(f);
  for (size_t row = 0; row < rows; ++row) {
    total += squares_row(src + fold_row(f, row, f->gone_src), f->gone_src[f->gone - 1], f->length, mean);
  }
  return (float)total;
}

static void run_fold(fold* f, at_body body, size_t worth) {
  const unsigned threads = at_pool_threads(f->call->pool);
  f->each = threads > 1 ? (worth + f->length * fold_rows(f)) / (f->length * fold_rows(f) + 1) : f->items;
  if (f->each < 64 && threads > 1) f->each = f->each < 1 ? 1 : f->each;
  if (f->each > f->items || f->each == 0) f->each = f->items ? f->items : 1;
  at_pool_run(f->call->pool, (f->items + f->each - 1) / f->each, body, f);
}
