// Products of matrices: tiles of rows by panels of columns; a row of A is found through a pointer for each tap.
//
//   out[m][n] = act(Σ_t Σ_k a[t][m][k] · w[panel(n)][t][k][n % PANEL] + bias[n] (+ residual[m][n]))
//   M rows (pixels of the output), T taps (1 for GEMM), K channels of the input, N columns (channels of the output)
//
// Taps and channels are taken in slices whose weights stay in the first-level cache while all rows of a block pass;
// sums wait in `out` meanwhile. Their order is never changed, so that every tiling gives the same bits.
#pragma once

#include "../internal.h"
#include "activation.h"

enum {
  NV = AT_PANEL / VL,
  WIDE = VL > 8 ? 2 : 1,  // panels of a full tile
  MOST_ROWS = 192,        // of a block
  MOST_DEPTH = 320        // of a slice: 20 kB of weights
};

typedef struct {
  const float* const* a;      // a[t * pitch + m], a row of channels each
  const float* const* lines;  // instead of a, of one tap: lines[k][ahead + m]
  size_t ahead, pitch, taps, depth;
  const float* weight;  // panels of one group
  const float* bias;    // or NULL
  float* const* out;    // of each row of the block
  const float* const* residual;
  size_t columns;
  activation act;
} product;

// Some taps, whole, or a part of one.
typedef struct {
  size_t tap, taps, from, depth;
  int first, last;
} slice;

INLINE void multiply(const int rows, const int vectors, const product* p, const slice* s, size_t first, const float* b,
                     vf acc[][4 * NV]) {
  const size_t apart = p->taps * p->depth * AT_PANEL;
#define MULTIPLY(X)                                                                             \
  do {                                                                                          \
    vf w[4 * NV];                                                                               \
    for (int v = 0; v < vectors; ++v) w[v] = vload(b + (size_t)(v / NV) * apart + v % NV * VL); \
    for (int r = 0; r < rows; ++r) {                                                            \
      const vf x = vset(X);                                                                     \
      for (int v = 0; v < vectors; ++v) acc[r][v] += x * w[v];                                  \
    }                                                                                           \
  } while (0)
  if (p->lines) {
    const size_t ahead = p->ahead + first;
    for (size_t k = 0; k < p->depth; ++k, b += AT_PANEL) {
      const float* line = p->lines[k] + ahead;
      __asm__("" : "+r"(line));  // one pointer for all rows, not an offset for each
      MULTIPLY(line[r]);
    }
    return;
  }
  for (size_t t = s->tap; t < s->tap + s->taps; ++t) {
    const float* row[MR];
    for (int r = 0; r < rows; ++r) row[r] = p->a[t * p->pitch + first + (size_t)r] + s->from;
    for (size_t k = 0; k < s->depth; ++k, b += AT_PANEL) MULTIPLY(row[r][k]);
  }
#undef MULTIPLY
}

// The floats of the last of some vectors that hold `count`.
INLINE size_t last_part(size_t count, const int vectors) { return count - (size_t)(vectors - 1) * VL; }

INLINE vf load_columns(const float* at, size_t count, const int vectors, int v, const int full) {
  return full || v + 1 < vectors ? vload(at + v * VL) : vload_part(at + v * VL, last_part(count, vectors));
}

INLINE void store_columns(float* at, vf x, size_t count, const int vectors, int v, const int full) {
  if (full || v + 1 < vectors) {
    vstore(at + v * VL, x);
  } else {
    vstore_part(at + v * VL, x, last_part(count, vectors));
  }
}

// Rows of a tile whose sums are whole: residual and activation; `act` is a constant.
INLINE void finish(const int rows, const int vectors, const int full, const int64_t act, const product* p, size_t first,
                   size_t column, size_t count, vf acc[][4 * NV]) {
  const vf low = vset(p->act.low), high = vset(p->act.high);
  for (int r = 0; r < rows; ++r) {
    float* out = p->out[first + (size_t)r] + column;
    const float* residual = p->residual ? p->residual[first + (size_t)r] + column : NULL;
    for (int v = 0; v < vectors; ++v) {
      vf x = acc[r][v];
      if (residual) x += load_columns(residual, count, vectors, v, full);
      if (act == AT_ACT_CLAMP) x = vceil_at(vfloor_at(x, low), high);
      if (act == AT_ACT_HARDSWISH) x = vhardswish(x);
      store_columns(out, x, count, vectors, v, full);
    }
  }
}

INLINE void tile_of(const int rows, const int vectors, const int full, const product* p, const slice* s, size_t first,
                    size_t column, size_t count) {
  vf acc[MR][4 * NV];
  if (!s->first) {
    for (int r = 0; r < rows; ++r) {
      const float* sums = p->out[first + (size_t)r] + column;
      for (int v = 0; v < vectors; ++v) acc[r][v] = load_columns(sums, count, vectors, v, full);
    }
  } else {
    for (int v = 0; v < vectors; ++v) {
      const vf start = p->bias ? load_columns(p->bias + column, count, vectors, v, full) : vset(0.0f);
      for (int r = 0; r < rows; ++r) acc[r][v] = start;
    }
  }
  const float* b = p->weight + column * p->taps * p->depth + (s->tap * p->depth + s->from) * AT_PANEL;
  multiply(rows, vectors, p, s, first, b, acc);
  if (!s->last) {
    for (int r = 0; r < rows; ++r) {
      float* out = p->out[first + (size_t)r] + column;
      for (int v = 0; v < vectors; ++v) store_columns(out, acc[r][v], count, vectors, v, full);
    }
    return;
  }
  switch (p->act.act) {
    case AT_ACT_HARDSWISH:
      finish(rows, vectors, full, AT_ACT_HARDSWISH, p, first, column, count, acc);
      break;
    case AT_ACT_RELU:
    case AT_ACT_CLAMP:
      finish(rows, vectors, full, AT_ACT_CLAMP, p, first, column, count, acc);
      break;
    default:
      finish(rows, vectors, full, AT_ACT_NONE, p, first, column, count, acc);
      if (p->act.act == AT_ACT_NONE) break;
      for (int r = 0; r < rows; ++r) activate(p->act.act, p->out[first + (size_t)r] + column, count);
  }
}

// The last panel may have fewer columns, and then takes no more vectors than they fill; tiles of several are full.
INLINE void tile(const int rows, const int panels, const product* p, const slice* s, size_t first, size_t column) {
  const size_t whole = (size_t)panels * AT_PANEL, count = p->columns - column;
  if (count >= whole) {
    tile_of(rows, panels * NV, 1, p, s, first, column, whole);
  } else if (NV == 1 || count <= VL) {
    tile_of(rows, 1, 0, p, s, first, column, count);
  } else if (NV == 2 || count <= 2 * VL) {
    tile_of(rows, 2, 0, p, s, first, column, count);
  } else if (count <= 3 * VL) {
    tile_of(rows, 3, 0, p, s, first, column, count);
  } else {
    tile_of(rows, 4, 0, p, s, first, column, count);
  }
}

// Asks for a share of the next panel's weights while this one's rows pass.
INLINE void fetch_next(const product* p, const slice* s, size_t first, size_t rows, size_t column) {
  if (column >= p->columns) return;
  const size_t lines = s->taps * s->depth * (AT_PANEL * sizeof(float) / AT_LINE);
  const char* next = (const char*)(p->weight + column * p->taps * p->depth + (s->tap * p->depth + s->from) * AT_PANEL);
  const size_t to = (first + MR) * lines / rows;
  for (size_t i = first * lines / rows; i < to; ++i) __builtin_prefetch(next + i * AT_LINE, 0, 2);
}

// All rows of a block by the panels of a tile.
INLINE void column_of_tiles(const int panels, const product* p, const slice* s, size_t rows, size_t column) {
  // Rather several tiles of a row less than one of a few rows, which would wait for its own sums.
  const size_t tiles = (rows + MR - 1) / MR, missing = tiles * MR - rows, less = missing < tiles ? missing : 0;
  size_t first = 0;
  for (; first + MR + less * (MR - 1) <= rows; first += MR) {
    fetch_next(p, s, first, rows, column + (size_t)panels * AT_PANEL);
    tile(MR, panels, p, s, first, column);
  }
  for (; less && first < rows; first += MR - 1) tile(MR - 1, panels, p, s, first, column);
#if MR > 8
  for (; first + 8 <= rows; first += 8) tile(8, panels, p, s, first, column);
#endif
#if MR > 4
  for (; first + 4 <= rows; first += 4) tile(4, panels, p, s, first, column);
#endif
  for (; first + 2 <= rows; first += 2) tile(2, panels, p, s, first, column);
  if (first < rows) tile(1, panels, p, s, first, column);
}

static void slice_of_tiles(const product* p, const slice* s, size_t rows, size_t from, size_t to) {
  size_t i = from;
#if VL > 8
  for (; i + WIDE <= to && (i + WIDE) * AT_PANEL <= p->columns; i += WIDE)
    column_of_tiles(WIDE, p, s, rows, i * AT_PANEL);
#endif
  for (; i < to; ++i) column_of_tiles(1, p, s, rows, i * AT_PANEL);
}

// One row: several panels at once, so that enough sums are on their way.
static void row_of_tiles(const product* p, const slice* s, size_t from, size_t to) {
  size_t i = from;
  for (; i + 4 <= to && (i + 4) * AT_PANEL <= p->columns; i += 4) tile(1, 4, p, s, 0, i * AT_PANEL);
  for (; i < to; ++i) tile(1, 1, p, s, 0, i * AT_PANEL);
}

// All rows of a block by the panels from `from` to `to`.
static void multiply_block(const product* p, size_t rows, size_t from, size_t to) {
  const slice whole = {0, p->taps, 0, p->depth, 1, 1};
  if (rows == 1) {
    row_of_tiles(p, &whole, from, to);
  } else if (rows <= MR || p->taps * p->depth <= MOST_DEPTH) {
    slice_of_tiles(p, &whole, rows, from, to);
  } else if (p->depth > MOST_DEPTH) {
    const size_t parts = (p->depth + MOST_DEPTH - 1) / MOST_DEPTH, depth = (p->depth + parts - 1) / parts;
    for (size_t t = 0; t < p->taps; ++t) {
      for (size_t at = 0; at < p->depth; at += depth) {
        const size_t rest = p->depth - at;
        const slice s = {t, 1, at, rest < depth ? rest : depth, t == 0 && at == 0, t + 1 == p->taps && rest <= depth};
        slice_of_tiles(p, &s, rows, from, to);
      }
    }
  } else {
    const size_t taps = MOST_DEPTH / p->depth;
    for (size_t t = 0; t < p->taps; t += taps) {
      const size_t rest = p->taps - t;
      const slice s = {t, rest < taps ? rest : taps, 0, p->depth, t == 0, rest <= taps};
      slice_of_tiles(p, &s, rows, from, to);
    }
  }
}

// How a product is cut into items for threads: blocks of rows, and chunks of panels.
typedef struct {
  size_t rows, block, blocks, panels, chunk, chunks;
} cut;

INLINE cut cut_product(size_t rows, size_t columns, unsigned threads) {
  cut found = {.rows = rows, .panels = (columns + AT_PANEL - 1) / AT_PANEL};
  const size_t most = MOST_ROWS / MR * MR;
  found.blocks = (rows + most - 1) / most;
  found.block = ((rows + found.blocks - 1) / found.blocks + MR - 1) / MR * MR;
  found.blocks = (rows + found.block - 1) / found.block;
  found.chunk = found.panels;
  while (threads > 1 && found.chunk > 1 &&
         found.blocks * ((found.panels + found.chunk - 1) / found.chunk) < 4 * threads) {
    found.chunk = (found.chunk + 1) / 2;
  }
  found.chunks = found.panels ? (found.panels + found.chunk - 1) / found.chunk : 0;
  return found;
}

INLINE void run_item(const product* p, const cut* cut, size_t chunk, size_t rows) {
  const size_t last = (chunk + 1) * cut->chunk;
  multiply_block(p, rows, chunk * cut->chunk, last < cut->panels ? last : cut->panels);
}
