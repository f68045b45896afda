// Tiles: some rows of a product by some vectors of its columns, all sums in registers; one function for each size.
//
// How high a tile can be follows from the number of registers; "product.h" says what is computed.
#pragma once

#include "activation.h"
#include "rows.h"

enum { NV = AT_PANEL / VL };

// Most rows of tiles of one, two, three and four vectors; 0 for none.
#define UP_TO_2(X, V) X(V, 1) X(V, 2)
#define UP_TO_4(X, V) UP_TO_2(X, V) X(V, 3) X(V, 4)
#define UP_TO_6(X, V) UP_TO_4(X, V) X(V, 5) X(V, 6)
#define UP_TO_8(X, V) UP_TO_6(X, V) X(V, 7) X(V, 8)
#define UP_TO_12(X, V) UP_TO_8(X, V) X(V, 9) X(V, 10) X(V, 11) X(V, 12)
#if VL == 16
enum { MOST_1 = 12, MOST_2 = 8, MOST_3 = 9, MOST_4 = 6, USUAL = 2 };
#define EACH_TILE(X) UP_TO_12(X, 1) UP_TO_8(X, 2) UP_TO_8(X, 3) X(3, 9) UP_TO_6(X, 4)
#elif VL == 8
enum { MOST_1 = 8, MOST_2 = 6, MOST_3 = 4, MOST_4 = 2, USUAL = 2 };
#define EACH_TILE(X) UP_TO_8(X, 1) UP_TO_6(X, 2) UP_TO_4(X, 3) UP_TO_2(X, 4)
#elif defined(__aarch64__)
enum { MOST_1 = 8, MOST_2 = 8, MOST_3 = 8, MOST_4 = 6, USUAL = 4 };
#define EACH_TILE(X) UP_TO_8(X, 1) UP_TO_8(X, 2) UP_TO_8(X, 3) UP_TO_6(X, 4)
#else
enum { MOST_1 = 8, MOST_2 = 6, MOST_3 = 4, MOST_4 = 4, USUAL = 4 };
#define EACH_TILE(X) UP_TO_8(X, 1) UP_TO_6(X, 2) UP_TO_4(X, 3) UP_TO_4(X, 4)
#endif
enum { MOST_VECTORS = 4, MOST_HIGH = 14 };  // of a picture's tiles, see "picture.h"

// How full the last vector of a tile's columns is. Where it is half full at most, two rows may share a vector of sums:
// with sixteen floats a vector, in tiles of up to HALVES vectors.
enum { PART, HALF, FULL };
#if VL == 16
enum { HALVES = 3, HALF_1 = 12, HALF_2 = 12, HALF_3 = 8 };  // most rows of such tiles
#define EACH_HALF(X) UP_TO_12(X, 1) UP_TO_12(X, 2) UP_TO_8(X, 3)
#else
enum { HALVES = 0, HALF_1 = 0, HALF_2 = 0, HALF_3 = 0 };
#define EACH_HALF(X)
#endif

typedef struct {
  rows a;               // row m of tap t is row t * pitch + m; channels lie densely, from `ahead` on
  float* const* lines;  // instead of a, of one tap: lines[k][ahead + m]
  size_t ahead, pitch, taps, depth;
  const float* weight;  // panels of one group
  uintptr_t after;      // where what is read behind them is; 0: there
  const float* bias;    // or NULL
  rows out, residual;
  size_t columns;
  activation act;
} product;

// Some taps, whole, or a part of one, for a group of vectors: what its tiles share.
typedef struct {
  const product* product;
  size_t tap, taps, from, depth;
  int first, last;       // of the slices
  int fetches;           // whether tiles ask for the rows that they write
  size_t column, count;  // of the group; its last vector may be filled in part
  const float* weight;
  uintptr_t next;  // what is read after this: a tile asks for `share` bytes of each panel with each step of k; one row
                   // may ask for none
  size_t share;
} pass;

// Where the rows of a tile are, from a column on.
INLINE void find_rows(const int count, const rows* of, size_t first, size_t column, float** found) {
  if (of->at) {
    float* const* at = of->at + first;
    __asm__("" : "+r"(at));
    UNROLL for (int r = 0; r < count; ++r) found[r] = at[r] + column;
  } else {
    const int64_t step = of->step;
    float* at = of->first + (int64_t)first * step + column;
    __asm__("" : "+r"(at));  // of the tile: kept from one to the next, all pointers would want registers
    UNROLL for (int r = 0; r < count; ++r) found[r] = at + r * step;
  }
}

// A sum and one product more. Where there are many sums, the compiler's own choice of registers would copy them.
INLINE vf add_product(const int is_many, vf sum, vf x, vf w) {
#if defined(__AVX512F__) && VL == 16
  if (is_many) {
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
#elif defined(__FMA__) && VL == 8
  if (is_many) {
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
    return sum;
  }
#endif
  (void)is_many;
  return vadd_product(sum, x, w);
}

enum { STEPS = 4 };  // of k in which each of at most four panels is asked for once

// What a pass goes through: lines, several taps, or one tap or a part of it.
enum { LINES, TAPS, TAP };

#define FETCH(PANEL) __builtin_prefetch((const void*)(*next + (size_t)(PANEL) * apart * sizeof(float)), 0, 2)
#define MULTIPLY(X)                                                                                \
  do {                                                                                             \
    vf w[MOST_VECTORS], above = vset(0.0f);                                                        \
    UNROLL for (int v = 0; v < vectors; ++v) {                                                     \
      const float* at = b + (size_t)(v / NV) * apart + v % NV * VL;                                \
      w[v] = v < whole ? vload(at) : vload_twice(at);                                              \
    }                                                                                              \
    UNROLL for (int r = 0; r < rows; ++r) {                                                        \
      const vf x = vset(X);                                                                        \
      UNROLL for (int v = 0; v < whole; ++v) acc[r][v] = add_product(is_many, acc[r][v], x, w[v]); \
      if (whole < vectors && (r % 2 || r + 1 == rows)) {                                           \
        vf* both = &acc[r / 2 * 2][whole];                                                         \
        *both = add_product(is_many, *both, r % 2 ? vhalves(above, x) : x, w[whole]);              \
      }                                                                                            \
      above = x;                                                                                   \
    }                                                                                              \
  } while (0)

// Adds the products of one tap or a part of it; returns where the next tap's weights are.
INLINE const float* multiply_tap(const int rows, const int vectors, const int fill, const pass* s, float* const* row,
                                 const float* b, uintptr_t* next, vf acc[][MOST_VECTORS]) {
  const size_t apart = s->product->taps * s->product->depth * AT_PANEL, share = s->share, depth = s->depth;
  const int whole = fill == HALF ? vectors - 1 : vectors, is_many = rows >= 4 && vectors >= 2;
  const int panels = (vectors + NV - 1) / NV;
  size_t k = 0;
  if (rows == 1 && !share) {
    for (; k < depth; ++k, b += AT_PANEL) MULTIPLY(row[r][k]);
  }
  if (rows >= 4 && STEPS * share <= AT_LINE) {  // fewer tiles have to ask with each step
    for (; k + STEPS <= depth; k += STEPS, *next += STEPS * share) {
      UNROLL for (int i = 0; i < STEPS; ++i, b += AT_PANEL) {
        if (i < panels) FETCH(i);
        MULTIPLY(row[r][k + (size_t)i]);
      }
    }
  }
  for (; k < depth; ++k, b += AT_PANEL, *next += share) {
    UNROLL for (int i = 0; i < panels; ++i) FETCH(i);
    MULTIPLY(row[r][k]);
  }
  return b;
}

INLINE void multiply(const int kind, const int rows, const int vectors, const int fill, const pass* s, size_t first,
                     uintptr_t next, vf acc[][MOST_VECTORS]) {
  const product* p = s->product;
  const float* b = s->weight;
  if (kind == LINES) {
    const size_t apart = p->taps * p->depth * AT_PANEL, ahead = p->ahead + first;
    const int whole = fill == HALF ? vectors - 1 : vectors, is_many = rows >= 4 && vectors >= 2;
    for (size_t k = 0; k < p->depth; ++k, b += AT_PANEL) {
      const float* line = p->lines[k] + ahead;
      __asm__("" : "+r"(line));  // one pointer for all rows, not an offset for each
      MULTIPLY(line[r]);
    }
    return;
  }
  size_t t = s->tap;
  do {
    float* row[MOST_HIGH];
    find_rows(rows, &p->a, t * p->pitch + first, s->from + p->ahead, row);
    b = multiply_tap(rows, vectors, fill, s, row, b, &next, acc);
  } while (kind == TAPS && ++t < s->tap + s->taps);
}
#undef FETCH
#undef MULTIPLY

// Where a vector of a group lies in a row; the last may be filled in part.
INLINE vf load_columns(const float* at, const pass* s, const int vectors, int v, const int fill) {
  return fill == FULL || v + 1 < vectors ? vload(at + v * VL)
                                         : vload_part(at + v * VL, s->count - (size_t)(vectors - 1) * VL);
}

INLINE void store_columns(float* at, vf x, const pass* s, const int vectors, int v, const int fill) {
  if (fill == FULL || v + 1 < vectors) {
    vstore(at + v * VL, x);
  } else {
    vstore_part(at + v * VL, x, s->count - (size_t)(vectors - 1) * VL);
  }
}

// Asks for what a tile will read and write at its end; rows lie too far apart for the processor to foresee.
INLINE void fetch_rows(const int count, const int vectors, const rows* of, size_t first, size_t column) {
  float* at[MOST_HIGH];
  find_rows(count, of, first, column, at);
  UNROLL for (int r = 0; r < count; ++r) {
    UNROLL for (int v = 0; v < vectors; v += NV) {
      __builtin_prefetch((const void*)((uintptr_t)at[r] + (size_t)v * VL * sizeof(float)), 1, 3);
    }
  }
}

// Sums that are whole: residual and activation; `act` is a constant.
INLINE void finish(const int rows, const int vectors, const int fill, const int64_t act, const pass* s, size_t first,
                   float* const* out, vf acc[][MOST_VECTORS]) {
  const product* p = s->product;
  const vf low = vset(p->act.low), high = vset(p->act.high);
  float* residual[MOST_HIGH];
  if (are_there(&p->residual)) {
    find_rows(rows, &p->residual, first, s->column, residual);
    UNROLL for (int r = 0; r < rows; ++r) {
      UNROLL for (int v = 0; v < vectors; ++v) acc[r][v] += load_columns(residual[r], s, vectors, v, fill);
    }
  }
  UNROLL for (int r = 0; r < rows; ++r) {
    UNROLL for (int v = 0; v < vectors; ++v) {
      vf x = acc[r][v];
      if (act == AT_ACT_CLAMP) x = vceil_at(vfloor_at(x, low), high);
      if (act == AT_ACT_HARDSWISH) x = vhardswish(x);
      store_columns(out[r], x, s, vectors, v, fill);
    }
  }
}

INLINE void finish_tile(const int rows, const int vectors, const int fill, const pass* s, size_t first,
                        float* const* out, vf acc[][MOST_VECTORS]) {
  const product* p = s->product;
  switch (p->act.act) {
    case AT_ACT_HARDSWISH:
      finish(rows, vectors, fill, AT_ACT_HARDSWISH, s, first, out, acc);
      break;
    case AT_ACT_RELU:
    case AT_ACT_CLAMP:
      finish(rows, vectors, fill, AT_ACT_CLAMP, s, first, out, acc);
      break;
    default:
      finish(rows, vectors, fill, AT_ACT_NONE, s, first, out, acc);
      if (p->act.act != AT_ACT_NONE) activate_rows(p->act.act, &p->out, first, (size_t)rows, s->column, s->count);
  }
}

INLINE void tile(const int kind, const int rows, const int vectors, const int fill, const pass* s, size_t first,
                 uintptr_t next) {
  const product* p = s->product;
  vf acc[MOST_HIGH][MOST_VECTORS];
  float* out[MOST_HIGH];
  if (s->fetches) fetch_rows(rows, vectors, &p->out, first, s->column);
  if (s->last && are_there(&p->residual)) fetch_rows(rows, vectors, &p->residual, first, s->column);
  UNROLL for (int v = 0; v < vectors; ++v) {
    vf start = s->first && p->bias ? load_columns(p->bias + s->column, s, vectors, v, fill) : vset(0.0f);
    if (fill == HALF && v + 1 == vectors) start = vhalves(start, vturned(start));
    UNROLL for (int r = 0; r < rows; ++r) acc[r][v] = start;
  }
  multiply(kind, rows, vectors, fill, s, first, next, acc);
  if (fill == HALF) {
    UNROLL for (int r = 1; r < rows; r += 2) acc[r][vectors - 1] = vturned(acc[r - 1][vectors - 1]);
  }
  find_rows(rows, &p->out, first, s->column, out);
  if (!s->first) {
    UNROLL for (int r = 0; r < rows; ++r) {
      UNROLL for (int v = 0; v < vectors; ++v) acc[r][v] += load_columns(out[r], s, vectors, v, fill);
    }
  }
  if (!s->last) {
    UNROLL for (int r = 0; r < rows; ++r) {
      UNROLL for (int v = 0; v < vectors; ++v) store_columns(out[r], acc[r][v], s, vectors, v, fill);
    }
    return;
  }
  finish_tile(rows, vectors, fill, s, first, out, acc);
}

// Tiles one below the other. They are one loop, so that nothing but the rows' places is found again for each.
INLINE void tiles(const int kind, const int rows, const int vectors, const int fill, const pass* s, size_t first,
                  size_t count) {
  const size_t far = s->taps * s->depth * s->share;
  uintptr_t next = s->next;
  for (; count; --count, first += (size_t)rows, next += far) tile(kind, rows, vectors, fill, s, first, next);
}

// Whether a group's tiles are bare: their rows lie evenly, and their sums are stored as they are. With AVX2 such tiles
// of the usual size have a loop of their own, which finds no row again; elsewhere it was not tried.
INLINE int is_bare(const int rows, const int vectors, const int fill, const pass* s) {
  const product* p = s->product;
  return VL == 8 && rows >= 4 && vectors == USUAL && fill == FULL && !p->a.at && !p->out.at &&
         (!s->last || (!are_there(&p->residual) && p->act.act == AT_ACT_NONE));
}

INLINE void bare_tiles(const int rows, const int vectors, const pass* s, size_t first, size_t count) {
  const product* p = s->product;
  const int64_t far = p->a.step, out_far = p->out.step;
  float* a = p->a.first + (int64_t)(s->tap * p->pitch + first) * far + s->from + p->ahead;
  float* out = p->out.first + (int64_t)first * out_far + s->column;
  const float* bias = s->first && p->bias ? p->bias + s->column : NULL;
  const int is_first = s->first, fetches = s->fetches;
  uintptr_t next = s->next;
  for (; count; --count, a += rows * far, out += rows * out_far) {
    vf acc[MOST_HIGH][MOST_VECTORS];
    float* row[MOST_HIGH];
    UNROLL for (int r = 0; r < rows; ++r) {
      row[r] = a + r * far;
      if (fetches) __builtin_prefetch(out + r * out_far, 1, 3);
      UNROLL for (int v = 0; v < vectors; ++v) acc[r][v] = bias ? vload(bias + v * VL) : vset(0.0f);
    }
    multiply_tap(rows, vectors, FULL, s, row, s->weight, &next, acc);
    UNROLL for (int r = 0; r < rows; ++r) {
      UNROLL for (int v = 0; v < vectors; ++v) {
        float* at = out + r * out_far + v * VL;
        if (!is_first) acc[r][v] += vload(at);
        vstore(at, acc[r][v]);
      }
    }
  }
}

// The usual kind has a function of its own: with the others beside it, compilers run out of registers. FILL is how full
// the last vector is where the columns are all of the tile's, REST where they are not; or both, whatever they are.
#define DEFINE_TILES(NAME, VECTORS, ROWS, FILL, REST)                                                                  \
  static __attribute__((noinline)) void other_##NAME##_##VECTORS##_##ROWS(const pass* s, size_t first, size_t count) { \
    const int is_filled = FILL == REST || s->count == VECTORS * VL;                                                    \
    if (s->product->lines) {                                                                                           \
      if (is_filled) {                                                                                                 \
        tiles(LINES, ROWS, VECTORS, FILL, s, first, count);                                                            \
      } else {                                                                                                         \
        tiles(LINES, ROWS, VECTORS, REST, s, first, count);                                                            \
      }                                                                                                                \
    } else if (is_filled) {                                                                                            \
      tiles(TAPS, ROWS, VECTORS, FILL, s, first, count);                                                               \
    } else {                                                                                                           \
      tiles(TAPS, ROWS, VECTORS, REST, s, first, count);                                                               \
    }                                                                                                                  \
  }                                                                                                                    \
  static __attribute__((noinline)) void bare_##NAME##_##VECTORS##_##ROWS(const pass* s, size_t first, size_t count) {  \
    bare_tiles(ROWS, VECTORS, s, first, count);                                                                        \
  }                                                                                                                    \
  static __attribute__((noinline)) void NAME##_##VECTORS##_##ROWS(const pass* s, size_t first, size_t count) {         \
    if (s->taps == 1 && !s->product->lines && (FILL == REST || s->count == VECTORS * VL)) {                            \
      if (is_bare(ROWS, VECTORS, FILL, s)) {                                                                           \
        bare_##NAME##_##VECTORS##_##ROWS(s, first, count);                                                             \
      } else {                                                                                                         \
        tiles(TAP, ROWS, VECTORS, FILL, s, first, count);                                                              \
      }                                                                                                                \
    } else {                                                                                                           \
      other_##NAME##_##VECTORS##_##ROWS(s, first, count);                                                              \
    }                                                                                                                  \
  }
#define DEFINE_FULL(VECTORS, ROWS) DEFINE_TILES(tiles, VECTORS, ROWS, FULL, PART)
#define DEFINE_HALF(VECTORS, ROWS) DEFINE_TILES(halves, VECTORS, ROWS, HALF, HALF)
EACH_TILE(DEFINE_FULL)
EACH_HALF(DEFINE_HALF)
#undef DEFINE_HALF
#undef DEFINE_FULL
#undef DEFINE_TILES

typedef void some_tiles(const pass* s, size_t first, size_t count);

#define NAME_TILES(VECTORS, ROWS) [VECTORS][ROWS] = tiles_##VECTORS##_##ROWS,
#define NAME_HALVES(VECTORS, ROWS) [VECTORS][ROWS] = halves_##VECTORS##_##ROWS,
static some_tiles* const TILES[2][MOST_VECTORS + 1][MOST_HIGH + 1] = {{EACH_TILE(NAME_TILES)},
                                                                      {EACH_HALF(NAME_HALVES)}};
#undef NAME_HALVES
#undef NAME_TILES

static const size_t HIGHEST[2][MOST_VECTORS + 1] = {{0, MOST_1, MOST_2, MOST_3, MOST_4}, {0, HALF_1, HALF_2, HALF_3}};
