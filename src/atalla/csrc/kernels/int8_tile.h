// Sums of products of int8, some rows by some panels at a time: by AMX, by VNNI, by pairs of 16 bits, or one by one;
// and what such a sum becomes, which VNNI and AVX2 make before sums leave their registers.
//
//   sums[r][c] = start[c] + Σ_d a[r][d] · w[panel(c)][d / 4][c % 16][d % 4]
//
// Rows of `a` were packed for it, `pitch` elements from one to the next, a multiple of ROUND. FLIP was added to each
// element, which VNNI wants unsigned. What lies behind the depth is multiplied by zeros, so it may be anything.
#pragma once

#include "finishing.h"
#include "packed.h"
#if defined(__AMX_INT8__)
#include "amx.h"
#endif

#if defined(__AMX_INT8__)
typedef int8_t packed;
enum { FLIP = 0, ROUND = 64, HIGH = TILES_HIGH, WIDE = TILES_WIDE, TILE_STEP = TILE_ROWS };
#elif defined(__AVX512VNNI__)
typedef uint8_t packed;
enum { FLIP = 128, ROUND = 4, HIGH = 12, WIDE = 4, TILE_STEP = 12 };
#elif defined(__AVX2__)
typedef int16_t packed;
enum { FLIP = 0, ROUND = 4, HIGH = 6, WIDE = 1, TILE_STEP = 6 };
#else
typedef int16_t packed;
enum { FLIP = 0, ROUND = 4, HIGH = 4, WIDE = 1, TILE_STEP = 4 };
#endif
enum { SUMS = WIDE * AT_PANEL };

#if defined(__AMX_INT8__)
INLINE size_t high_of(size_t rows) { return tiles_high(rows); }

INLINE void begin_tiles(size_t rows) { configure_tiles(rows); }

INLINE void end_tiles(void) { _tile_release(); }

INLINE size_t panels_at_once(size_t left, size_t rows) {
  (void)rows;
  return left < WIDE ? left : WIDE;
}

// `high` is that of the block.
static void sum_tile(size_t rows, size_t high, const packed* a, size_t pitch, const deep_panels* p, int32_t* sums) {
  amx_sums(0, rows, high, a, pitch, p, sums);
}

#else

enum { TAIL_BYTES = 1 };

INLINE void find_tail(deep_panels* p, int8_t* room) { p->tail = room; }

INLINE void begin_tiles(size_t rows) { (void)rows; }

INLINE void end_tiles(void) {}

// As even as can be.
INLINE size_t high_of(size_t rows) {
  const size_t tiles = (rows + HIGH - 1) / HIGH;
  return (rows + tiles - 1) / tiles;
}

#if defined(__AVX512VNNI__)
enum {
  FEW_ROWS = 5,      // by four panels
  INT8_AHEAD = 32,   // steps that weights are asked for before they are read
  ROW_AHEAD = 8192,  // bytes that those of one row are
};

// The sums of one row: its panels lie one behind the other, and memory is read best in its order. Whole numbers have
// the same sum in any.
INLINE void vnni_row(const int panels, const packed* a, const deep_panels* p, __m512i acc[HIGH][WIDE]) {
  const int8_t* w = p->weight;
  _Pragma("GCC unroll 4") for (int c = 0; c < panels; ++c) {
    __m512i other = _mm512_setzero_si512();
    size_t step = 0;
    for (; step + 2 <= p->steps; step += 2, w += 2 * STEP_BYTES) {
      int64_t eight;
      memcpy(&eight, a + step * AT_QUAD, sizeof eight);
      __builtin_prefetch((const void*)((uintptr_t)w + ROW_AHEAD), 0, 3);
      __builtin_prefetch((const void*)((uintptr_t)w + ROW_AHEAD + STEP_BYTES), 0, 3);
      acc[0][c] = _mm512_dpbusd_epi32(acc[0][c], _mm512_set1_epi32((int32_t)eight), _mm512_loadu_si512(w));
      other = _mm512_dpbusd_epi32(other, _mm512_set1_epi32((int32_t)(eight >> 32)), _mm512_loadu_si512(w + STEP_BYTES));
    }
    if (step < p->steps) {
      int32_t four;
      memcpy(&four, a + step * AT_QUAD, sizeof four);
      acc[0][c] = _mm512_dpbusd_epi32(acc[0][c], _mm512_set1_epi32(four), _mm512_loadu_si512(w));
      w += STEP_BYTES;
    }
    acc[0][c] = _mm512_add_epi32(acc[0][c], other);
  }
}

INLINE void vnni_rows(const int rows, const int panels, const packed* a, size_t pitch, const deep_panels* p,
                      __m512i acc[HIGH][WIDE]) {
  const int8_t* w = p->weight;
  const size_t apart = p->steps * STEP_BYTES;
  // Each row's own pointer would not stay in a register: two of three are found by their distance.
  const packed* thirds[HIGH / 3];
  _Pragma("GCC unroll 4") for (int i = 0; i < (rows + 2) / 3; ++i) thirds[i] = a + (size_t)(3 * i) * pitch;
  for (size_t step = 0; step < p->steps; ++step, w += STEP_BYTES) {
    __m512i weights[WIDE];
    _Pragma("GCC unroll 4") for (int c = 0; c < panels; ++c) {
      weights[c] = _mm512_loadu_si512(w + (size_t)c * apart);
      __builtin_prefetch((const void*)((uintptr_t)w + (size_t)c * apart + INT8_AHEAD * STEP_BYTES), 0, 3);
    }
    _Pragma("GCC unroll 12") for (int r = 0; r < rows; ++r) {
      int32_t four;
      memcpy(&four, thirds[r / 3] + (size_t)(r % 3) * pitch, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
      _Pragma("GCC unroll 4") for (int c = 0; c < panels; ++c) {
        acc[r][c] = _mm512_dpbusd_epi32(acc[r][c], x, weights[c]);
      }
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < (rows + 2) / 3; ++i) {
      thirds[i] += AT_QUAD;
      __asm__("" : "+r"(thirds[i]));
    }
  }
}

INLINE void vnni_tile(const int rows, const int panels, const packed* a, size_t pitch, const deep_panels* p,
                      const finishing* f, int32_t* sums) {
  __m512i acc[HIGH][WIDE];
  _Pragma("GCC unroll 12") for (int r = 0; r < rows; ++r) {
    _Pragma("GCC unroll 4") for (int c = 0; c < panels; ++c) {
      acc[r][c] = _mm512_loadu_si512(p->start + c * AT_PANEL);
    }
  }
  if (rows == 1) {
    vnni_row(panels, a, p, acc);
  } else {
    vnni_rows(rows, panels, a, pitch, p, acc);
  }
  if (f) {
    const finishing own = *f;  // which no store can change
    vf scale[WIDE], offset[WIDE];
    _Pragma("GCC unroll 4") for (int c = 0; c < panels; ++c) {
      scale[c] = vload(own.scale + c * AT_PANEL);
      offset[c] = vload(own.offset + c * AT_PANEL);
    }
    _Pragma("GCC unroll 12") for (int r = 0; r < rows; ++r) {
      int8_t* out = (int8_t*)own.out + own.at[r];
      _Pragma("GCC unroll 4") for (int c = 0; c < panels; ++c) {
        vstore_int8(out + c * AT_PANEL, finished(&own, (vi)acc[r][c], scale[c], offset[c]));
      }
    }
    return;
  }
  _Pragma("GCC unroll 12") for (int r = 0; r < rows; ++r) {
    _Pragma("GCC unroll 4") for (int c = 0; c < panels; ++c) {
      _mm512_storeu_si512(sums + r * SUMS + c * AT_PANEL, acc[r][c]);
    }
  }
}

#define EACH_1(X, V) X(V, 1) X(V, 2) X(V, 3) X(V, 4) X(V, 5)
#define EACH_12(X, V) EACH_1(X, V) X(V, 6) X(V, 7) X(V, 8) X(V, 9) X(V, 10) X(V, 11) X(V, 12)
#define EACH_VNNI(X) EACH_12(X, 1) EACH_12(X, 2) EACH_1(X, 3) EACH_1(X, 4)
#define DEFINE_VNNI(PANELS, ROWS)                                                                                   \
  static __attribute__((noinline)) void vnni_##PANELS##_##ROWS(const packed* a, size_t pitch, const deep_panels* p, \
                                                               const finishing* f, int32_t* sums) {                 \
    vnni_tile(ROWS, PANELS, a, pitch, p, f, sums);                                                                  \
  }
EACH_VNNI(DEFINE_VNNI)
#undef DEFINE_VNNI
#define NAME_VNNI(PANELS, ROWS) [PANELS][ROWS] = vnni_##PANELS##_##ROWS,
static void (*const VNNI[WIDE + 1][HIGH + 1])(const packed*, size_t, const deep_panels*, const finishing*,
                                              int32_t*) = {EACH_VNNI(NAME_VNNI)};
#undef NAME_VNNI

INLINE size_t panels_at_once(size_t left, size_t rows) {
  const size_t most = rows <= FEW_ROWS ? WIDE : 2;
  return left < most ? left : most;
}

INLINE void sum_tile(size_t rows, size_t high, const packed* a, size_t pitch, const deep_panels* p, int32_t* sums) {
  (void)high;
  VNNI[p->panels][rows](a, pitch, p, NULL, sums);
}

// Makes int8 of sums that are still in registers; whether this set does.
INLINE int make_tile(size_t rows, const packed* a, size_t pitch, const deep_panels* p, const finishing* f) {
  VNNI[p->panels][rows](a, pitch, p, f, NULL);
  return 1;
}

#else

INLINE size_t panels_at_once(size_t left, size_t rows) {
  (void)left;
  (void)rows;
  return 1;
}

#if defined(__AVX2__)
#include "int8_pairs.h"
#else
static void sum_tile(size_t rows, size_t high, const packed* a, size_t pitch, const deep_panels* p, int32_t* sums) {
  (void)high;
  for (size_t r = 0; r < rows; ++r) {
    uint32_t acc[AT_PANEL];  // a stranger's start may wrap around
    for (int c = 0; c < AT_PANEL; ++c) acc[c] = (uint32_t)p->start[c];
    const packed* x = a + r * pitch;
    const int8_t* w = p->weight;
    for (size_t step = 0; step < p->steps; ++step, w += STEP_BYTES, x += AT_QUAD) {
      for (int c = 0; c < AT_PANEL; ++c) {
        int32_t sum = 0;
        for (int i = 0; i < AT_QUAD; ++i) sum += x[i] * w[c * AT_QUAD + i];
        acc[c] += (uint32_t)sum;
      }
    }
    for (int c = 0; c < AT_PANEL; ++c) sums[r * SUMS + (size_t)c] = (int32_t)acc[c];
  }
}
#endif
#endif
#endif

#if !defined(__AVX2__) || defined(__AMX_INT8__)
INLINE int make_tile(size_t rows, const packed* a, size_t pitch, const deep_panels* p, const finishing* f) {
  (void)rows, (void)a, (void)pitch, (void)p, (void)f;
  return 0;
}
#endif

#if !defined(WIDENS)
INLINE size_t widened_bytes(size_t steps) { return (void)steps, 0; }

INLINE void widen(deep_panels* p, size_t rows, char* room) { (void)p, (void)rows, (void)room; }

INLINE size_t share_of(size_t tiles) { return (void)tiles, 0; }
#endif
