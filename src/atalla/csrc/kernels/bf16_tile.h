// Sums of products of bfloat16, some rows by some panels at a time, in the order in which AMX adds.
//
//   for every 32 of the depth:  sums[r][c] += Σ_even a[r][d] · w[d][c] + Σ_odd a[r][d] · w[d][c]
//
// Each Σ begins with 0; each of its steps is rounded once. What is smaller than the smallest normal number is zero,
// before an operation and after it. Rows are bfloat16 for AMX, else float32 that was rounded so; zeros fill them up.
#pragma once

#include "packed.h"
#if defined(__AMX_BF16__)
#include "amx.h"
#else
#include "tile.h"
#endif

enum { DEEP = 32 };  // depth whose even and odd products are added by themselves first

#if defined(__AMX_BF16__)
typedef uint16_t bf16;
enum { BF16_HIGH = TILES_HIGH, BF16_STEP = TILE_ROWS, BF16_WIDE = TILES_WIDE };

INLINE void store_bf16(bf16* to, vf x, size_t count) {
  _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), (__m256i)_mm512_cvtneps_pbh((__m512)x));
}

INLINE size_t bf16_high(size_t rows) { return tiles_high(rows); }

INLINE void begin_bf16(size_t rows) { configure_tiles(rows); }

INLINE void end_bf16(void) { _tile_release(); }

INLINE void find_bf16_tail(deep_panels* p, int8_t* room) { find_tail(p, room); }

static void sum_bf16(size_t rows, size_t high, const char* a, size_t pitch, const deep_panels* p, float* sums) {
  amx_sums(1, rows, high, a, pitch, p, (int32_t*)(void*)sums);
}

#else
typedef float bf16;
enum { BF16_HIGH = VL == 16 ? 8 : 4, BF16_STEP = BF16_HIGH, BF16_WIDE = 1, BF16_SUMS = AT_PANEL };

INLINE vf vbf16(vf x) {
  const vu bits = (vu)x, sign = bits & (vu)viset(INT32_MIN);
  const vi size = (vi)bits & viset(INT32_MAX);
  const vu rounded = (bits + (vu)viset(0x7fff) + (bits >> 16 & (vu)viset(1))) & (vu)viset((int32_t)0xffff0000);
  const vu quiet = (bits | (vu)viset(0x400000)) & (vu)viset((int32_t)0xffff0000);
  const vf found = vselect(viless(viset(0x7f800000), size), (vf)quiet, (vf)rounded);
  return vselect(viless(size, viset(0x800000)), (vf)sign, found);
}

INLINE void store_bf16(bf16* to, vf x, size_t count) {
  count == VL ? vstore(to, vbf16(x)) : vstore_part(to, vbf16(x), count);
}

// As even as can be.
INLINE size_t bf16_high(size_t rows) {
  const size_t tiles = (rows + BF16_HIGH - 1) / BF16_HIGH;
  return (rows + tiles - 1) / tiles;
}

#if defined(__FMA__) || defined(__aarch64__)
// The processor takes tiny numbers for zeros, as it reads them and as it makes them.
#if defined(__aarch64__)
typedef uint64_t float_mode;

INLINE float_mode begin_flush(void) {
  float_mode before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" ::"r"(before | 1u << 24) : "memory");
  return before;
}

INLINE void end_flush(float_mode before) { __asm__ volatile("msr fpcr, %0" ::"r"(before) : "memory"); }
#else
typedef unsigned float_mode;

INLINE float_mode begin_flush(void) {
  const float_mode before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  return before;
}

INLINE void end_flush(float_mode before) { _mm_setcsr(before); }
#endif

// One vector of columns of a panel; products and sums are one operation.
INLINE void bf16_tile(const int rows, const float* a, size_t pitch, const int8_t* w, size_t steps, const float* start,
                      float* sums) {
  vf acc[BF16_HIGH];
  UNROLL for (int r = 0; r < rows; ++r) acc[r] = vload(start);
  for (size_t step = 0; step < steps; step += DEEP / AT_PAIR, a += DEEP) {
    const size_t pairs = steps - step < DEEP / AT_PAIR ? steps - step : DEEP / AT_PAIR;
    vf even[BF16_HIGH], odd[BF16_HIGH];
    UNROLL for (int r = 0; r < rows; ++r) even[r] = odd[r] = vset(0.0f);
    const float* x = a;
    for (size_t i = 0; i < pairs; ++i, w += STEP_BYTES, x += AT_PAIR) {
      const vu both = *(const vu*)(const void*)w;
      const vf first = (vf)(both << 16), second = (vf)(both & (vu)viset((int32_t)0xffff0000));
      UNROLL for (int r = 0; r < rows; ++r) {
        even[r] = add_product(rows >= 4, even[r], vset(x[(size_t)r * pitch]), first);
        odd[r] = add_product(rows >= 4, odd[r], vset(x[(size_t)r * pitch + 1]), second);
      }
    }
    UNROLL for (int r = 0; r < rows; ++r) acc[r] += even[r] + odd[r];
  }
  UNROLL for (int r = 0; r < rows; ++r) vstore(sums + r * BF16_SUMS, acc[r]);
}

#define EACH_BF16_4(X) X(1) X(2) X(3) X(4)
#if VL == 16
#define EACH_BF16(X) EACH_BF16_4(X) X(5) X(6) X(7) X(8)
#else
#define EACH_BF16(X) EACH_BF16_4(X)
#endif
#define DEFINE_BF16(ROWS)                                                                                        \
  static __attribute__((noinline)) void bf16_##ROWS(const float* a, size_t pitch, const int8_t* w, size_t steps, \
                                                    const float* start, float* sums) {                           \
    bf16_tile(ROWS, a, pitch, w, steps, start, sums);                                                            \
  }
EACH_BF16(DEFINE_BF16)
#undef DEFINE_BF16
#define NAME_BF16(ROWS) [ROWS] = bf16_##ROWS,
static void (*const BF16_TILES[BF16_HIGH + 1])(const float*, size_t, const int8_t*, size_t, const float*,
                                               float*) = {EACH_BF16(NAME_BF16)};
#undef NAME_BF16

static void sum_bf16(size_t rows, size_t high, const char* a, size_t pitch, const deep_panels* p, float* sums) {
  (void)high;
  const float *numbers = (const float*)(const void*)a, *start = (const float*)(const void*)p->start;
  const float_mode before = begin_flush();
  for (size_t column = 0; column < AT_PANEL; column += VL) {
    const int8_t* w = p->weight + column * AT_LANE;
    BF16_TILES[rows](numbers, pitch / sizeof(float), w, p->steps, start + column, sums + column);
  }
  end_flush(before);
}

#else
INLINE float without_tiny(float x) { return x * (fabsf(x) < 0x1p-126f ? 0.0f : 1.0f); }

// Rounded once: float64 has more than twice the digits of float32 and two, and holds a product of bfloat16 whole.
INLINE float fused(float sum, float a, float w) { return without_tiny((float)((double)sum + (double)a * (double)w)); }

INLINE float widened(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return without_tiny(x);
}

static void sum_bf16(size_t rows, size_t high, const char* a, size_t pitch, const deep_panels* p, float* sums) {
  (void)high;
  for (size_t r = 0; r < rows; ++r, sums += BF16_SUMS) {
    const float* x = (const float*)(const void*)(a + r * pitch);
    const int8_t* w = p->weight;
    memcpy(sums, p->start, BF16_SUMS * sizeof *sums);
    for (size_t step = 0; step < p->steps; step += DEEP / AT_PAIR) {
      float even[AT_PANEL] = {0}, odd[AT_PANEL] = {0};
      for (size_t i = step; i < p->steps && i < step + DEEP / AT_PAIR; ++i, w += STEP_BYTES, x += AT_PAIR) {
        uint32_t pairs[AT_PANEL];
        memcpy(pairs, w, sizeof pairs);
        for (int c = 0; c < AT_PANEL; ++c) {
          even[c] = fused(even[c], x[0], widened(pairs[c] << 16));
          odd[c] = fused(odd[c], x[1], widened(pairs[c] & 0xffff0000u));
        }
      }
      for (int c = 0; c < AT_PANEL; ++c) sums[c] = without_tiny(without_tiny(sums[c]) + without_tiny(even[c] + odd[c]));
    }
  }
}
#endif

INLINE void begin_bf16(size_t rows) { (void)rows; }

INLINE void end_bf16(void) {}

INLINE void find_bf16_tail(deep_panels* p, int8_t* room) { p->tail = room; }
#endif

// Numbers become bfloat16: half to even, NaN quiet, tiny ones zero.
INLINE char* put_bf16(const packed_job* job, char* at, const char* from, int64_t step, size_t count) {
  (void)job;
  bf16* to = (bf16*)(void*)at;
  const float* numbers = (const float*)(const void*)from;
  for (size_t i = 0; i < count; i += VL) {
    const size_t here = count - i < VL ? count - i : VL;
    vf x = vset(0.0f);
    if (numbers && step == 1) {
      x = here == VL ? vload(numbers + i) : vload_part(numbers + i, here);
    } else if (numbers) {
      for (size_t k = 0; k < here; ++k) x[k] = numbers[(int64_t)(i + k) * step];
    }
    store_bf16(to + i, x, here);
  }
  return (char*)(to + count);
}
