// Cut: how a product is divided into items for threads: blocks of rows, and chunks of panels; and how its depth is
// divided into slices whose sums are made by themselves.
#pragma once

#include "../internal.h"

typedef struct {
  size_t rows, block, blocks, panels, chunk, chunks;
} cut;

// Blocks of at most `most` rows: whole tiles of `high` rows for one thread, and as even as can be for several, so that
// none waits for a tile of another's. There are as many for each thread, unless few rows meet many weights (`depth` for
// each column): then threads had better read different weights. Chunks are whole tiles of `wide` panels.
static inline cut cut_product(size_t rows, size_t columns, size_t depth, unsigned threads, size_t most, size_t high,
                              size_t wide) {
  cut found = {.rows = rows, .panels = (columns + AT_PANEL - 1) / AT_PANEL};
  found.blocks = (rows + most - 1) / most;
  if (found.blocks > 1 || rows > columns * depth / (columns + depth))
    found.blocks = (found.blocks + threads - 1) / threads * threads;
  found.block = (rows + found.blocks - 1) / found.blocks;
  if (threads == 1) found.block = (found.block + high - 1) / high * high;
  if (found.block > most) found.block = most;
  found.blocks = (rows + found.block - 1) / found.block;
  found.chunk = found.panels;
  while (threads > 1 && found.chunk > wide &&
         found.blocks * ((found.panels + found.chunk - 1) / found.chunk) < 4 * threads) {
    found.chunk = ((found.chunk + 1) / 2 + wide - 1) / wide * wide;
  }
  found.chunks = found.panels ? (found.panels + found.chunk - 1) / found.chunk : 0;
  return found;
}

enum { MOST_DEPTH = 320 };  // of a slice: 20 kB of weights

// How taps and channels are cut into slices.
typedef struct {
  size_t taps, depth;   // of a slice
  size_t parts, count;  // slices of a tap's channels, and of all
} slicing;

static inline slicing cut_slices(size_t taps, size_t depth) {
  slicing found = {1, depth, 1, taps};
  if (depth > MOST_DEPTH) {
    found.parts = (depth + MOST_DEPTH - 1) / MOST_DEPTH;
    found.depth = (depth + found.parts - 1) / found.parts;
    found.parts = (depth + found.depth - 1) / found.depth;
    found.count = taps * found.parts;
  } else {
    found.taps = depth ? MOST_DEPTH / depth : taps;
    found.count = (taps + found.taps - 1) / found.taps;
  }
  return found;
}
