// The simulated device's matrix and vector units, with the arithmetic of this instruction set's kernels: what they
// make of the same numbers has the same bits.
#pragma once

#include "../device/units.h"
#include "bf16_tile.h"
#include "finishing.h"
#include "winograd.h"

enum { FEED = 4, FED_DEPTH = 64 };  // rows that are multiplied together; depth of weights that are widened at once

// Sums lie in groups of 16 columns, and so do weights: what is behind the last column is there, and means nothing.
INLINE void device_f32_rows(const int rows, const atalla_matrix_tile* t, size_t m, size_t column) {
  vf acc[FEED][NV];
  float* sums = (float*)t->sums + (int64_t)m * t->sums_stride + (int64_t)column;
  const float* a = (const float*)t->a + (int64_t)m * t->a_stride;
  const float* b = (const float*)t->b + column;
  UNROLL for (int r = 0; r < rows; ++r) {
    UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = vload(sums + r * t->sums_stride + v * VL);
  }
  for (int64_t k = 0; k < t->k; ++k, b += t->b_row_stride) {
    vf w[NV];
    UNROLL for (int v = 0; v < NV; ++v) w[v] = vload(b + v * VL);
    UNROLL for (int r = 0; r < rows; ++r) {
      const vf x = vset(a[r * t->a_stride + k]);
      UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = add_product(0, acc[r][v], x, w[v]);
    }
  }
  UNROLL for (int r = 0; r < rows; ++r) {
    UNROLL for (int v = 0; v < NV; ++v) vstore(sums + r * t->sums_stride + v * VL, acc[r][v]);
  }
}

static int device_f32(void* unit, atalla_matrix_tile* t) {
  (void)unit;
  for (size_t column = 0; column < (size_t)t->n; column += AT_PANEL) {
    size_t m = 0;
    for (; m + FEED <= (size_t)t->m; m += FEED) device_f32_rows(FEED, t, m, column);
    for (; m < (size_t)t->m; ++m) device_f32_rows(1, t, m, column);
  }
  return 0;
}

// The first of several calls for the same sums does not say that they begin with zeros: memory holds them.
INLINE void begin_sums(const atalla_matrix_tile* t) {
  if (t->accumulate) return;
  for (int64_t m = 0; m < t->m; ++m) {
    memset((char*)t->sums + m * t->sums_stride * AT_LANE, 0,
           ((size_t)t->n + AT_PANEL - 1) / AT_PANEL * AT_PANEL * AT_LANE);
  }
}

INLINE void device_int8_rows(const int rows, const atalla_matrix_tile* t, size_t m, size_t first, size_t depth,
                             const int32_t* weights, size_t column) {
  vu acc[FEED][NV];
  int32_t* sums = (int32_t*)t->sums + (int64_t)m * t->sums_stride + (int64_t)column;
  const int8_t* a = (const int8_t*)t->a + (int64_t)m * t->a_stride + (int64_t)first;
  UNROLL for (int r = 0; r < rows; ++r) {
    UNROLL for (int v = 0; v < NV; ++v) acc[r][v] = *(const vu*)(const void*)(sums + r * t->sums_stride + v * VL);
  }
  for (size_t k = 0; k < depth; ++k, weights += AT_PANEL) {
    UNROLL for (int r = 0; r < rows; ++r) {
      const vu x = (vu)viset(a[r * t->a_stride + (int64_t)k]);
      UNROLL for (int v = 0; v < NV; ++v) acc[r][v] += x * *(const vu*)(const void*)(weights + v * VL);
    }
  }
  UNROLL for (int r = 0; r < rows; ++r) {
    UNROLL for (int v = 0; v < NV; ++v) * (vu*)(void*)(sums + r * t->sums_stride + v * VL) = acc[r][v];
  }
}

static int device_int8(void* unit, atalla_matrix_tile* t) {
  (void)unit;
  begin_sums(t);
  int32_t weights[FED_DEPTH * AT_PANEL] __attribute__((aligned(64)));
  for (size_t column = 0; column < (size_t)t->n; column += AT_PANEL) {
    for (size_t first = 0; first < (size_t)t->k; first += FED_DEPTH) {
      const size_t depth = (size_t)t->k - first < FED_DEPTH ? (size_t)t->k - first : FED_DEPTH;
      for (size_t k = 0; k < depth; ++k) {
        const int8_t* from = (const int8_t*)t->b + (int64_t)(first + k) * t->b_row_stride + (int64_t)column;
        for (size_t c = 0; c < AT_PANEL; ++c) weights[k * AT_PANEL + c] = from[c];
      }
      size_t m = 0;
      for (; m + FEED <= (size_t)t->m; m += FEED) device_int8_rows(FEED, t, m, first, depth, weights, column);
      for (; m < (size_t)t->m; ++m) device_int8_rows(1, t, m, first, depth, weights, column);
    }
  }
  return 0;
}

INLINE float bf16_number(uint16_t bits) {
  const uint32_t whole = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &whole, sizeof x);
  return x;
}

// Some of the depth, DEEP at most, in pairs: where one is missing at the end it is a zero times a zero.
#if defined(__FMA__) || defined(__aarch64__)
INLINE void device_bf16_rows(const int rows, const float* a, const float* weights, size_t pairs, float* sums,
                             int64_t stride) {
  for (size_t column = 0; column < AT_PANEL; column += VL) {
    vf even[FEED], odd[FEED];
    UNROLL for (int r = 0; r < rows; ++r) even[r] = odd[r] = vset(0.0f);
    for (size_t i = 0; i < pairs; ++i) {
      const vf first = vload(weights + 2 * i * AT_PANEL + column);
      const vf second = vload(weights + (2 * i + 1) * AT_PANEL + column);
      UNROLL for (int r = 0; r < rows; ++r) {
        even[r] = add_product(0, even[r], vset(a[r * DEEP + 2 * (int64_t)i]), first);
        odd[r] = add_product(0, odd[r], vset(a[r * DEEP + 2 * (int64_t)i + 1]), second);
      }
    }
    UNROLL for (int r = 0; r < rows; ++r) {
      float* at = sums + r * stride + (int64_t)column;
      vstore(at, vload(at) + (even[r] + odd[r]));
    }
  }
}
#else
INLINE void device_bf16_rows(const int rows, const float* a, const float* weights, size_t pairs, float* sums,
                             int64_t stride) {
  for (int r = 0; r < rows; ++r, a += DEEP, sums += stride) {
    for (int c = 0; c < AT_PANEL; ++c) {
      float even = 0.0f, odd = 0.0f;
      for (size_t i = 0; i < pairs; ++i) {
        even = fused(even, a[2 * i], without_tiny(weights[2 * i * AT_PANEL + (size_t)c]));
        odd = fused(odd, a[2 * i + 1], without_tiny(weights[(2 * i + 1) * AT_PANEL + (size_t)c]));
      }
      sums[c] = without_tiny(without_tiny(sums[c]) + without_tiny(even + odd));
    }
  }
}
#endif

static int device_bf16(void* unit, atalla_matrix_tile* t) {
  (void)unit;
  begin_sums(t);
#if defined(__FMA__) || defined(__aarch64__)
  const float_mode before = begin_flush();
#endif
  float weights[DEEP * AT_PANEL] __attribute__((aligned(64))), a[FEED * DEEP] __attribute__((aligned(64)));
  for (int64_t column = 0; column < t->n; column += AT_PANEL) {
    for (int64_t first = 0; first < t->k; first += DEEP) {
      const int64_t depth = t->k - first < DEEP ? t->k - first : DEEP;
      memset(weights, 0, sizeof weights);
      memset(a, 0, sizeof a);
      for (int64_t k = 0; k < depth; ++k) {
        const uint16_t* from = (const uint16_t*)t->b + (first + k) * t->b_row_stride + column;
        for (int c = 0; c < AT_PANEL; ++c) weights[k * AT_PANEL + c] = bf16_number(from[c]);
      }
      for (int64_t m = 0; m < t->m; m += FEED) {
        const int64_t rows = t->m - m < FEED ? t->m - m : FEED;
        for (int64_t r = 0; r < rows; ++r) {
          const uint16_t* from = (const uint16_t*)t->a + (m + r) * t->a_stride + first;
          for (int64_t k = 0; k < depth; ++k) a[r * DEEP + k] = bf16_number(from[k]);
        }
        float* sums = (float*)t->sums + m * t->sums_stride + column;
        const size_t pairs = (size_t)(depth + 1) / 2;
        if (rows == FEED) {
          device_bf16_rows(FEED, a, weights, pairs, sums, t->sums_stride);
        } else {
          for (int64_t r = 0; r < rows; ++r) {
            device_bf16_rows(1, a + r * DEEP, weights, pairs, sums + r * t->sums_stride, t->sums_stride);
          }
        }
      }
    }
  }
#if defined(__FMA__) || defined(__aarch64__)
  end_flush(before);
#endif
  return 0;
}

// Residual and activation, in the order of "tile.h", and of "bf16.h".
static void finish_floats(const at_finish* f) {
  const activation act = read_activation(f->words);
  const vf low = vset(act.low), high = vset(act.high);
  const int has_bounds = f->is_bf16 ? is_bounds(act.act) : act.act == AT_ACT_RELU || act.act == AT_ACT_CLAMP;
  const int is_swish = !f->is_bf16 && act.act == AT_ACT_HARDSWISH;
  for (size_t r = 0; r < f->rows; ++r) {
    float* row = (float*)(void*)f->sums + r * f->columns;
    const float* summand = f->residual ? f->residual + r * f->columns : NULL;
    for (size_t c = 0; c < f->columns; c += VL) {
      const size_t here = f->columns - c < VL ? f->columns - c : VL;
      vf x = here == VL ? vload(row + c) : vload_part(row + c, here);
      if (summand) x += here == VL ? vload(summand + c) : vload_part(summand + c, here);
      if (has_bounds) x = vceil_at(vfloor_at(x, low), high);
      if (is_swish) x = vhardswish(x);
      here == VL ? vstore(row + c, x) : vstore_part(row + c, x, here);
    }
    if (!is_swish && !is_bounds(act.act)) activate(act.act, row, f->columns);
  }
}

INLINE vi sums_of(const int32_t* at, size_t here) {
  return (vi)(here == VL ? vload((const float*)(const void*)at) : vload_part((const float*)(const void*)at, here));
}

// What the zero point adds to each column is added here: the sums themselves begin with zeros.
static void finish_whole(const at_finish* f) {
  const finishing made_of = {.low = (float)at_number(f->words[1]), .high = (float)at_number(f->words[2])};
  const vu factor = (vu)viset((int32_t)(0u - (uint32_t)f->words[0]));
  for (size_t c = 0; c < f->columns; c += VL) {
    const size_t here = f->columns - c < VL ? f->columns - c : VL;
    const vf scale = vload_part(f->scale + c, here), offset = vload_part(f->offset + c, here);
    const vu start = factor * (vu)sums_of(f->column_sums + c, here);
    for (size_t r = 0; r < f->rows; ++r) {
      const size_t at = r * f->columns + c;
      const vu sums = (vu)sums_of((const int32_t*)(const void*)f->sums + at, here) + start;
      const vf made = finished(&made_of, (vi)sums, scale, offset);
      if (f->out_dtype == AT_I8) {
        vstore_int8_part((int8_t*)f->out + at, made, here);
      } else {
        vstore_part((float*)(void*)f->out + at, made, here);
      }
    }
  }
}

static void device_finish(const at_finish* f) { f->is_int8 ? finish_whole(f) : finish_floats(f); }

static void device_wino_out(const at_call* call, const float* m, size_t pitch, int64_t n, int64_t top, int64_t left) {
  const wino_job job = {.call = call,
                        .tile = at_wino_tile_of(call->src[1].dim[1]),
                        .columns = (size_t)call->dst.dim[1],
                        .act = read_activation(call->words + AT_CONV2D_WINO_ACT)};
  wino_write(&job, m, pitch, n, top, left);
}

static const at_device_kernels DEVICE_KERNELS = {
    .f32 = device_f32,
    .int8 = device_int8,
    .bf16 = device_bf16,
    .finish = device_finish,
    .wino_in = wino_read,
    .wino_out = device_wino_out,
};
