// Products of matrices: rows by panels of columns, in slices of the depth.
//
//   out[m][n] = act(Σ_t Σ_k a[t][m][k] · w[panel(n)][t][k][n % PANEL] + bias[n] (+ residual[m][n]))
//   M rows (pixels of the output), T taps (1 for GEMM), K channels of the input, N columns (channels of the output)
//
// Taps and channels are taken in slices whose weights stay in the first-level cache while all rows of a block pass;
// each slice has a sum of its own, which keeps errors small, and whole sums wait in `out`. Slices depend on the depth
// alone, so that every tiling computes the same bits.
#pragma once

#include "choices.h"
#include "cut.h"
#include "tile.h"

enum {
  MOST_ROWS = 256,          // of a block
  LEAST_ROWS = 96,          // of a block that has to be small
  USUAL_FLOATS = 36 << 10,  // of a block's rows, with AVX2: they share the second-level cache with what they become
  MOST_BYTES = 400 << 10,   // of a block's rows
  LEAST_FETCHED = 192,      // depth of a slice during which the rows that it writes come in time, with AVX2
  AHEAD = 48                // steps of k that one row's weights are asked for before they are read
};

// Lines are one slice, whatever their depth.
INLINE slicing cut_depth(const product* p) {
  return p->lines ? (slicing){1, p->depth, 1, 1} : cut_slices(p->taps, p->depth);
}

// Where a slice begins. No division for the usual one tap: it is not little beside a few tiles.
typedef struct {
  size_t tap, from;
} slice_start;

INLINE slice_start start_of(const slicing* cut, size_t i) {
  if (cut->parts == 1) return (slice_start){i * cut->taps, 0};
  const size_t tap = i < cut->parts ? 0 : i / cut->parts;
  return (slice_start){tap, (i - tap * cut->parts) * cut->depth};
}

// Where a slice's weights are for the group of vectors that begins with a column; it may lie behind all weights.
INLINE uintptr_t weights_at(const product* p, slice_start at, size_t column) {
  const size_t panel = column / AT_PANEL * p->taps * p->depth + at.tap * p->depth + at.from;
  return (uintptr_t)p->weight + (panel * AT_PANEL + column % AT_PANEL) * sizeof(float);
}

INLINE pass pass_of(const product* p, const slicing* cut, size_t i, size_t column, size_t count) {
  const slice_start at = start_of(cut, i);
  const size_t taps = p->taps - at.tap, depth = p->depth - at.from;
  return (pass){.product = p,
                .tap = at.tap,
                .taps = taps < cut->taps ? taps : cut->taps,
                .from = at.from,
                .depth = depth < cut->depth ? depth : cut->depth,
                .first = i == 0,
                .last = i + 1 == cut->count,
                .fetches = fetches_rows() && (VL == 16 || (i == 0 && cut->taps * cut->depth >= LEAST_FETCHED)),
                .column = column,
                .count = count,
                .weight = (const float*)weights_at(p, at, column)};
}

// How the rows of a block are cut into tiles, as even as can be, for a group of vectors.
typedef struct {
  some_tiles *higher, *lower;
  size_t high, more, rest, share;  // `more` tiles of high + 1 rows, then `rest` of high
} tiling;

INLINE tiling tiling_of(size_t rows, size_t vectors, size_t count) {
  const int half = vectors <= HALVES && rows > 1 && count + VL / 2 <= vectors * VL;
  const size_t most = HIGHEST[half][vectors], tiles = (rows + most - 1) / most, high = rows / tiles;
  return (tiling){.higher = TILES[half][vectors][high + 1],
                  .lower = TILES[half][vectors][high],
                  .high = high,
                  .more = rows - high * tiles,
                  .rest = tiles - (rows - high * tiles),
                  .share = rows == 1 && !asks_ahead() ? 0 : (AT_LINE + tiles - 1) / tiles};
}

// All rows of a block; `s->next` is where they lead.
INLINE void pass_of_tiles(pass* s, const tiling* t) {
  s->share = t->share;
  if (t->more) t->higher(s, 0, t->more);
  s->next += t->more * s->taps * s->depth * s->share;
  t->lower(s, t->more * (t->high + 1), t->rest);
}

// How many vectors are taken at once of those that are left: more where few rows would leave registers empty.
INLINE size_t group_of(size_t left, size_t rows) {
  if (left <= MOST_VECTORS && rows <= HIGHEST[0][left]) return left;
  if (rows <= MOST_4) return left < MOST_VECTORS ? left : MOST_VECTORS;
  if (!by_threes()) return left < USUAL || (VL == 16 && left == 3) ? left : USUAL;
  return left < 3 ? left : left % 3 == 0 || left == 5 ? 3 : 4;
}

// All rows of a block by the panels from `from` to `to`. As many slices of a panel follow each other as rows of the
// block stay in the second-level cache for the next panel.
static void multiply_block(const product* p, size_t rows, size_t from, size_t to) {
  const slicing cut = cut_depth(p);
  const size_t bytes = rows * p->depth * sizeof(float), begin = from * AT_PANEL;
  const size_t end = to * AT_PANEL < p->columns ? to * AT_PANEL : p->columns;
  size_t most = bytes <= MOST_BYTES ? cut.count : cut.parts * MOST_BYTES / bytes;
  if (most == 0) most = 1;
  tiling tiles = {0};
  size_t tiled = 0;
  for (size_t at = 0; at < cut.count; at += most) {
    const size_t last = cut.count - at < most ? cut.count : at + most;
    for (size_t column = begin; column < end;) {
      const size_t vectors = group_of((end - column + VL - 1) / VL, rows), wide = vectors * VL;
      const size_t behind = column + wide, here = end - column < wide ? end - column : wide;
      if (here != tiled) tiles = tiling_of(rows, vectors, here);
      tiled = here;
      for (size_t i = at; i < last; ++i) {
        pass s = pass_of(p, &cut, i, column, here);
        if (rows == 1) {  // nothing is read twice: what comes next is the same panels' own
          s.next = (uintptr_t)s.weight + AHEAD * AT_LINE;
        } else {
          const int is_end = behind >= end && last == cut.count && p->after;
          s.next = i + 1 < last ? weights_at(p, start_of(&cut, i + 1), column)
                   : is_end     ? p->after
                                : weights_at(p, start_of(&cut, at), behind);
        }
        pass_of_tiles(&s, &tiles);
      }
      column = behind;
    }
  }
}

enum { WHOLE = (int)USUAL > (int)NV ? (int)USUAL / (int)NV : 1 };  // panels of a full tile

// Most rows of a block.
INLINE size_t block_of(size_t depth) {
  if (VL != 8 || depth <= USUAL_FLOATS / MOST_ROWS) return MOST_ROWS;
  return depth >= USUAL_FLOATS / LEAST_ROWS ? LEAST_ROWS : USUAL_FLOATS / depth;
}

INLINE cut cut_rows(const at_call* call, size_t rows, size_t columns, size_t taps, size_t depth) {
  return cut_product(rows, columns, taps * depth, at_pool_threads(call->pool), block_of(depth), MOST_2, WHOLE);
}

INLINE void run_item(const product* p, const cut* cut, size_t chunk, size_t rows) {
  const size_t last = (chunk + 1) * cut->chunk;
  multiply_block(p, rows, chunk * cut->chunk, last < cut->panels ? last : cut->panels);
}
