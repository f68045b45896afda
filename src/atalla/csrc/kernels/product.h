// Products of matrices: tiles of rows by panels of columns; a row of A is found through a pointer for each tap.
//
//   out[m][n] = act(Σ_t Σ_k a[t][m][k] · w[panel(n)][t][k][n % PANEL] + bias[n] (+ residual[m][n]))
//   M rows (pixels of the output), T taps (1 for GEMM), K channels of the input, N columns (channels of the output)
//
// Taps and channels are taken in slices whose weights stay in the first-level cache while all rows of a block pass;
// each slice has a sum of its own, which keeps errors small, and whole sums wait in `out`. Slices depend on the depth
// alone, so that every tiling gives the same bits.
#pragma once

#include "../internal.h"
#include "activation.h"

enum {
  NV = AT_PANEL / VL,
  WIDE = VL > 8 ? 2 : 1,  // panels of a full tile
  MOST_ROWS = 192,        // of a block
  MOST_DEPTH = 320,       // of a slice: 20 kB of weights
  MOST_BYTES = 400 << 10  // of a block's rows
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
  for (int v = 0; v < vectors; ++v) {
    const vf start = s->first && p->bias ? load_columns(p->bias + column, count, vectors, v, full) : vset(0.0f);
    for (int r = 0; r < rows; ++r) acc[r][v] = start;
  }
  const float* b = p->weight + column * p->taps * p->depth + (s->tap * p->depth + s->from) * AT_PANEL;
  multiply(rows, vectors, p, s, first, b, acc);
  if (!s->first) {
    for (int r = 0; r < rows; ++r) {
      const float* sums = p->out[first + (size_t)r] + column;
      for (int v = 0; v < vectors; ++v) acc[r][v] += load_columns(sums, count, vectors, v, full);
    }
  }
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

// Asks for a share of the weights behind this slice's, which come next, while its rows pass.
INLINE void fetch_next(const product* p, const slice* s, size_t first, size_t rows, size_t column, size_t panels) {
  const size_t bytes = s->taps * s->depth * AT_PANEL * sizeof(float), all = p->taps * p->depth * AT_PANEL;
  const float* weight = p->weight + column * p->taps * p->depth + (s->tap * p->depth + s->from) * AT_PANEL;
  const size_t lines = bytes / AT_LINE, to = (first + MR) * lines / rows;
  for (size_t panel = 0; panel < panels; ++panel, weight += all) {
    const char* next = (const char*)weight + bytes;
    for (size_t i = first * lines / rows; i < to; ++i) __builtin_prefetch(next + i * AT_LINE, 0, 2);
  }
}

// All rows of a block by the panels of a tile.
INLINE void column_of_tiles(const int panels, const product* p, const slice* s, size_t rows, size_t column) {
  // Rather several tiles of a row less than one of a few rows, which would wait for its own sums.
  const size_t tiles = (rows + MR - 1) / MR, missing = tiles * MR - rows, less = missing < tiles ? missing : 0;
  size_t first = 0;
  for (; first + MR + less * (MR - 1) <= rows; first += MR) {
    fetch_next(p, s, first, rows, column, (size_t)panels);
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

// How taps and channels are cut into slices.
typedef struct {
  size_t taps, depth;   // of a slice
  size_t parts, count;  // slices of a tap's channels, and of all
} slicing;

INLINE slicing cut_depth(const product* p) {
  slicing found = {1, p->depth, 1, p->taps};
  if (p->depth > MOST_DEPTH) {
    found.parts = (p->depth + MOST_DEPTH - 1) / MOST_DEPTH;
    found.depth = (p->depth + found.parts - 1) / found.parts;
    found.parts = (p->depth + found.depth - 1) / found.depth;
    found.count = p->taps * found.parts;
  } else {
    found.taps = p->depth ? MOST_DEPTH / p->depth : p->taps;
    found.count = (p->taps + found.taps - 1) / found.taps;
  }
  return found;
}

INLINE slice slice_at(const product* p, const slicing* cut, size_t i) {
  const size_t tap = i / cut->parts * cut->taps, from = i % cut->parts * cut->depth;
  const size_t taps = p->taps - tap, depth = p->depth - from;
  return (slice){
      .tap = tap,
      .taps = taps < cut->taps ? taps : cut->taps,
      .from = from,
      .depth = depth < cut->depth ? depth : cut->depth,
      .first = i == 0,
      .last = i + 1 == cut->count,
  };
}

INLINE void slices_of_tiles(const int panels, const product* p, const slicing* cut, size_t from, size_t to, size_t rows,
                            size_t column) {
  for (size_t i = from; i < to; ++i) {
    const slice s = slice_at(p, cut, i);
    column_of_tiles(panels, p, &s, rows, column);
  }
}

// One row: several panels at once, so that enough sums are on their way.
static void row_of_tiles(const product* p, const slicing* cut, size_t first, size_t last, size_t from, size_t to) {
  size_t i = from;
  for (; i + 4 <= to && (i + 4) * AT_PANEL <= p->columns; i += 4) {
    for (size_t at = first; at < last; ++at) {
      const slice s = slice_at(p, cut, at);
      tile(1, 4, p, &s, 0, i * AT_PANEL);
    }
  }
  for (; i < to; ++i) {
    for (size_t at = first; at < last; ++at) {
      const slice s = slice_at(p, cut, at);
      tile(1, 1, p, &s, 0, i * AT_PANEL);
    }
  }
}

// Rows by the panels from `from` to `to`; of each panel, the slices from `first` to `last`.
static void panels_of_tiles(const product* p, const slicing* cut, size_t first, size_t last, size_t rows, size_t from,
                            size_t to) {
  size_t i = from;
#if VL > 8
  for (; i + WIDE <= to && (i + WIDE) * AT_PANEL <= p->columns; i += WIDE)
    slices_of_tiles(WIDE, p, cut, first, last, rows, i * AT_PANEL);
#endif
  for (; i < to; ++i) slices_of_tiles(1, p, cut, first, last, rows, i * AT_PANEL);
}

// All rows of a block by the panels from `from` to `to`. As many slices of a panel follow each other as rows of the
// block stay in the second-level cache for the next panel.
static void multiply_block(const product* p, size_t rows, size_t from, size_t to) {
  const slicing cut = cut_depth(p);
  const size_t bytes = rows * p->depth * sizeof(float);
  size_t most = bytes <= MOST_BYTES ? cut.count : cut.parts * MOST_BYTES / bytes;
  if (most == 0) most = 1;
  for (size_t at = 0; at < cut.count; at += most) {
    const size_t end = cut.count - at < most ? cut.count : at + most;
    if (rows == 1) {
      row_of_tiles(p, &cut, at, end, from, to);
    } else {
      panels_of_tiles(p, &cut, at, end, rows, from, to);
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
