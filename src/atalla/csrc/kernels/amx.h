// AMX: 16 rows by 64 bytes of depth by 16 columns at a time, of int8 or of bfloat16.
#pragma once

#include "packed.h"

enum { TILE_ROWS = 16, TILES_HIGH = 2 * TILE_ROWS, TILES_WIDE = 2, TILE_STEPS = 16 };
enum { TAIL_BYTES = TILE_STEPS * STEP_BYTES, TILE_SUMS = TILES_WIDE * AT_PANEL };

typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tile_config;

// The height of one tile of `rows`, as even as can be: AMX takes as long for rows that are not there.
INLINE size_t tile_height(size_t rows) {
  const size_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
  return (rows + tiles - 1) / tiles;
}

// Rows that are taken at once of a block.
INLINE size_t tiles_high(size_t rows) { return rows > TILE_ROWS ? 2 * tile_height(rows) : rows; }

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights.
INLINE void configure_tiles(size_t rows) {
  tile_config config = {.palette = 1};
  for (int i = 0; i < 8; ++i) {
    config.bytes[i] = 64;
    config.rows[i] = i < 6 ? (uint8_t)tile_height(rows) : 16;
  }
  _tile_loadconfig(&config);
}

INLINE void find_tail(deep_panels* p, int8_t* room) {
  const size_t left = p->steps % TILE_STEPS * STEP_BYTES, whole = p->steps * STEP_BYTES;
  p->tail = room;
  for (size_t panel = 0; left && panel < p->panels; ++panel, room += TAIL_BYTES) {
    memcpy(room, p->weight + (panel + 1) * whole - left, left);
    memset(room + left, 0, TAIL_BYTES - left);
  }
}

// 64 bytes of depth of a panel.
INLINE const int8_t* weights_from(const deep_panels* p, size_t panel, size_t step) {
  return p->steps - step >= TILE_STEPS ? p->weight + (panel * p->steps + step) * STEP_BYTES
                                       : p->tail + panel * TAIL_BYTES;
}

#define ADD_TILE(SUM, ROW, WEIGHT)      \
  do {                                  \
    if (is_bf16) {                      \
      _tile_dpbf16ps(SUM, ROW, WEIGHT); \
    } else {                            \
      _tile_dpbssd(SUM, ROW, WEIGHT);   \
    }                                   \
  } while (0)

INLINE void amx_tiles(const int is_bf16, const int two_high, const int two_wide, const char* a, size_t pitch,
                      size_t below, const deep_panels* p, int32_t* sums) {
  _tile_loadd(0, p->start, 0);
  if (two_wide) _tile_loadd(1, p->start + AT_PANEL, 0);
  if (two_high) _tile_loadd(2, p->start, 0);
  if (two_high && two_wide) _tile_loadd(3, p->start + AT_PANEL, 0);
  for (size_t step = 0; step < p->steps; step += TILE_STEPS) {
    const char* at = a + step * AT_LANE;
    _tile_loadd(6, weights_from(p, 0, step), STEP_BYTES);
    _tile_loadd(4, at, pitch);
    ADD_TILE(0, 4, 6);
    if (two_wide) {
      _tile_loadd(7, weights_from(p, 1, step), STEP_BYTES);
      ADD_TILE(1, 4, 7);
    }
    if (two_high) {
      _tile_loadd(5, at + below * pitch, pitch);
      ADD_TILE(2, 5, 6);
      if (two_wide) ADD_TILE(3, 5, 7);
    }
  }
  _tile_stored(0, sums, TILE_SUMS * sizeof *sums);
  if (two_wide) _tile_stored(1, sums + AT_PANEL, TILE_SUMS * sizeof *sums);
  if (two_high) _tile_stored(2, sums + below * TILE_SUMS, TILE_SUMS * sizeof *sums);
  if (two_high && two_wide) _tile_stored(3, sums + below * TILE_SUMS + AT_PANEL, TILE_SUMS * sizeof *sums);
}
#undef ADD_TILE

// `high` is that of the block, `pitch` bytes.
INLINE void amx_sums(const int is_bf16, size_t rows, size_t high, const void* a, size_t pitch, const deep_panels* p,
                     int32_t* sums) {
  const size_t below = high > TILE_ROWS ? high / 2 : high;
  if (rows > below) {
    p->panels == 2 ? amx_tiles(is_bf16, 1, 1, a, pitch, below, p, sums)
                   : amx_tiles(is_bf16, 1, 0, a, pitch, below, p, sums);
  } else {
    p->panels == 2 ? amx_tiles(is_bf16, 0, 1, a, pitch, below, p, sums)
                   : amx_tiles(is_bf16, 0, 0, a, pitch, below, p, sums);
  }
}
