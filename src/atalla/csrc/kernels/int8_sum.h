// REDUCE of int8 by SUM: whole numbers, of which no order changes the bits.
#pragma once

#include "fold.h"

enum { BYTES_AT_ONCE = 64, SUMS_OF_32 = 1 << 16 };  // an int32 holds sums of as many

// Of elements `step` apart.
static int64_t sum_bytes_row(const int8_t* at, int64_t step, size_t count) {
  int64_t total = 0;
  for (size_t begin = 0; begin < count; begin += SUMS_OF_32) {
    const size_t end = count - begin < SUMS_OF_32 ? count : begin + SUMS_OF_32;
    int32_t part = 0;
    if (step == 1) {
      for (size_t i = begin; i < end; ++i) part += at[i];
    } else {
      for (size_t i = begin; i < end; ++i) part += at[(int64_t)i * step];
    }
    total += part;
  }
  return total;
}

static void sum_bytes(const fold* f, const int8_t* src, int64_t* dst) {
  const size_t rows = fold_rows(f);
  int64_t total = 0;
  for (size_t row = 0; row < rows; ++row) {
    total += sum_bytes_row(src + fold_row(f, row, f->gone_src), f->gone_src[f->gone - 1], f->length);
  }
  *dst = total;
}

// Of so many neighbours at once: channels are innermost and kept, as in an image's mean.
static void sum_bytes_lanes(const fold* f, const int8_t* src, int64_t* dst, size_t count) {
  const size_t rows = fold_rows(f);
  const int64_t step = f->gone_src[f->gone - 1];
  int64_t total[BYTES_AT_ONCE] = {0};
  for (size_t row = 0; row < rows; ++row) {
    const int8_t* at = src + fold_row(f, row, f->gone_src);
    for (size_t begin = 0; begin < f->length; begin += SUMS_OF_32) {
      const size_t end = f->length - begin < SUMS_OF_32 ? f->length : begin + SUMS_OF_32;
      int32_t part[BYTES_AT_ONCE] = {0};
      for (size_t i = begin; i < end; ++i) {
        const int8_t* here = at + (int64_t)i * step;
        if (count == BYTES_AT_ONCE) {
          for (size_t j = 0; j < BYTES_AT_ONCE; ++j) part[j] += here[j];
        } else {
          for (size_t j = 0; j < count; ++j) part[j] += here[j];
        }
      }
      for (size_t j = 0; j < count; ++j) total[j] += part[j];
    }
  }
  memcpy(dst, total, count * sizeof *total);
}
