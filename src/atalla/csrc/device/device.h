// The device: a simulated accelerator's memories, engines and clock; what firmware keeps while it runs a program on it.
#pragma once

#include "units.h"

// Least accumulators: the 36 sums of a tile of Winograd's for a panel of 16 columns, in an array of 8.
enum {
  LEAST_ACCUMULATOR_ROWS = 72,
  LEAST_SCRATCHPAD = 32 << 10,
  MOST_SCRATCHPAD = 1 << 30,
  MOST_QUEUE = 4096,
  MOST_REGIONS = 10
};

// Micro-operations; regions are events of the kind SPAD.
enum {
  AT_DMA_LD,
  AT_DMA_ST,
  AT_MXU_SET,  // sums begin with numbers
  AT_MXU_MM,
  AT_MXU_DRAIN,  // sums go to a scratchpad
  AT_VPU_FINISH,
  AT_VPU_WINO_IN,
  AT_VPU_WINO_OUT,
  AT_VPU_CALL,  // an instruction's own kernel on a tile
  AT_MXU_CALL,
  AT_SPAD,
  AT_KINDS
};

// A part of a scratchpad that was handed out.
typedef struct {
  unsigned scratchpad;
  size_t offset, bytes;
  char* data;
  uint64_t written, read;  // when its last writer, and its last reader, are done
  uint8_t writer, reader;  // which engines these are
  uint32_t event;
} at_region;

typedef struct {
  size_t offset, bytes;
  uint64_t free_at;  // HELD until firmware frees it
} at_block;

#define AT_HELD UINT64_MAX

// What is taken of one scratchpad, by offset.
typedef struct {
  at_block* blocks;
  size_t count, capacity;
  size_t room;  // bytes that are handed out of
  char* memory;
} at_scratchpad;

typedef struct {
  uint64_t issued;    // firmware's own time: before it nothing can begin
  uint64_t roomless;  // until when firmware last waited for room
  uint64_t free[ATALLA_ENGINES];
  uint64_t* begins[ATALLA_ENGINES];  // of the last `queue` micro-operations, a ring
  uint64_t count[ATALLA_ENGINES];
} at_timeline;

typedef struct {
  atalla_event* rows;
  size_t count, capacity;
} at_event_list;

typedef struct {
  atalla_tile_cost* rows;
  size_t count, capacity;
  atalla_tile_cost now;  // the tile that is under way
} at_tile_list;

typedef struct at_device {
  atalla_hardware hardware;
  atalla_matrix_unit unit;
  const at_device_kernels* kernels;
  const at_kernels* chosen;
  bool is_dry, keeps_events, poisons, compares;
  bool is_trial;  // finding out how long an instruction would take: no data, no records
  at_scratchpad scratchpads[2];
  at_timeline timeline;
  at_region memory;  // all of it, for an instruction that `is_ordered`: loads wait for the stores before them
  bool is_ordered;
  at_event_list events;
  at_tile_list tiles;
  uint32_t instruction, tile;
  atalla_counters* counters;  // of the instruction
  float *running, *total;     // sums in the matrix unit: of a slice of the depth, and of the slices before it
  char *rows, *weights;       // what the matrix unit is fed with: rows as they enter it, one tile of weights
  size_t rows_bytes, weights_bytes;
  char* scratch;  // of kernels that run on tiles
  size_t scratch_bytes;
  at_pool* pool;
  int failure;  // the first status that something gave while tiles were run
} at_device;

static inline uint64_t at_most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline size_t at_rounded(size_t count, size_t to) { return (count + to - 1) / to * to; }

static inline size_t at_parts(size_t count, size_t of) { return (count + of - 1) / of; }

// Floats from a row of sums in the matrix unit to the next.
static inline size_t at_columns_apart(const atalla_hardware* hardware) {
  return hardware->array > AT_PANEL ? hardware->array : AT_PANEL;
}

static inline bool at_moves_data(const at_device* device) { return !device->is_dry && !device->is_trial; }

// At least so many bytes at `*at`; false where there is no memory.
bool at_grow(char** at, size_t* have, size_t bytes);
