// Products as the device sees them: rows, which are pixels of images, by columns, along a depth of taps and channels;
// and how one is cut into tiles.
#pragma once

#include "transfer.h"

// Where pixels of a view begin, in elements; dims outside of the last two are images.
typedef struct {
  unsigned outer;
  int64_t dim[AT_DIMS], stride[AT_DIMS];  // of images
  int64_t high, wide;                     // steps
} at_grid;

static inline int64_t at_image_offset(const at_grid* grid, size_t image) {
  int64_t offset = 0;
  for (unsigned i = grid->outer; i-- > 0;) {
    offset += (int64_t)(image % (size_t)grid->dim[i]) * grid->stride[i];
    image /= (size_t)grid->dim[i];
  }
  return offset;
}

typedef struct {
  const at_call* call;
  uint8_t dtype;  // AT_F32, AT_I8 or AT_BF16
  bool is_conv, is_window, is_stem, is_wino;
  bool has_bias, has_residual;
  size_t groups, columns, taps, channels, depth;  // of a group
  size_t quad;                                    // depth of a step of 64 bytes of weights
  size_t element, source, made;                   // bytes: in the scratchpad, in memory, of the result
  size_t places;                                  // of a tile of Winograd's: products; else 1
  at_wino_tile tile;
  size_t images, high, wide;   // of the result: its pixels are the rows
  at_grid from, to, residual;  // `from` only where it is no window
  int64_t pad;                 // what lies outside of the image
  size_t blank;                // columns of the matrix unit, 16 at least
} at_product;

bool at_is_product(uint16_t op);
at_product at_product_of(const atalla_hardware* hardware, uint16_t op, const at_call* call);

// Where the slice of the depth ends that holds `depth`.
size_t at_slice_end(const at_product* p, size_t depth);

// Products of so many rows by one tile of columns, along a part of the depth: edges of the matrix unit.
uint64_t at_chain_cycles(const atalla_hardware* hardware, const at_product* p, size_t rows, size_t from, size_t to);

// How a product is cut.
typedef struct {
  bool by_columns;            // weights of a chunk stay while all rows pass; else rows stay
  bool is_patch;              // rows are found in a part of the image; else the DMA lays them out
  bool is_whole;              // the whole depth of the rows is there at once
  unsigned ring;              // copies of what is made, and of parts of rows
  size_t images, high, wide;  // of a block of rows
  size_t chunk;               // columns
  size_t piece;               // depth that is loaded at once
  size_t places;              // of Winograd's, whose weights are loaded at once
} at_plan;

// A block of rows: some images, lines and pixels of a line of the result (of Winograd, tiles of them).
typedef struct {
  size_t image, y, x, images, high, wide;
} at_block_of_rows;

// Pixels a side of what a row becomes: a tile of Winograd's, else one pixel.
static inline size_t at_side_of(const at_product* p) { return p->is_wino ? p->tile.side : 1; }

static inline size_t at_rows_of(const at_block_of_rows* b) { return b->images * b->high * b->wide; }

// What a row reads of the image, and how far from it the rows beneath and beside it begin: pixels.
typedef struct {
  int64_t high, wide, down, right;
} at_footprint;

at_footprint at_footprint_of(const at_product* p);

// The part of the image that a block reads, clipped to the image.
typedef struct {
  int64_t y, x;  // of its corner
  int64_t high, wide;
} at_patch;

at_patch at_patch_of(const at_product* p, const at_block_of_rows* b);

// What the DMA moves of it: `count` channels. Channels are innermost in the scratchpad but of a stem,
// whose image keeps the order that it has in memory; strides are those of images, lines, pixels and channels.
at_box at_patch_box(const at_product* p, const at_block_of_rows* b, const at_patch* patch, size_t count);

// Blocks of a plan, and the one of a number.
size_t at_blocks(const at_product* p, const at_plan* plan);
at_block_of_rows at_block_number(const at_product* p, const at_plan* plan, size_t number);

// Bytes of the regions of a plan: of the scratchpad of weights, and of that of rows.
typedef struct {
  size_t weights, numbers;            // of a piece; scale, bias and so on of a chunk
  size_t rows, sums, residual, made;  // of a block
  size_t spread, raw;                 // of Winograd: transformed rows, as many sums each as places
} at_sizes;

at_sizes at_sizes_of(const at_product* p, const at_plan* plan);

// How many frames, and how many weights, have room at once.
typedef struct {
  size_t frames, weights;
} at_slots;

at_slots at_slots_of(const atalla_hardware* hardware, const at_product* p, const at_plan* plan, size_t room);

// The plan that is expected to be fastest with `room` bytes of each scratchpad; 0 cycles where none fits.
typedef struct {
  size_t room;
  uint64_t expected;
  at_plan plan;
} at_plan_choice;

// Finds the plans of several rooms, from small to large.
void at_choose_plans(const atalla_hardware* hardware, const at_product* p, at_plan_choice* choices, size_t count);

// Runs the product by a plan; the device's `failure` says what went wrong.
void at_run_product(struct at_device* device, const at_product* p, const at_plan* plan);
void at_run_wino(struct at_device* device, const at_product* p, const at_plan* plan);
