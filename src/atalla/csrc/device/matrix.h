// The matrix unit's side of a product: sums that begin, grow and leave, from rows and weights in scratchpad memory.
#pragma once

#include "product.h"

// Rows in a scratchpad: laid out, or to be found in a part of the image.
typedef struct {
  const char* data;
  bool is_laid;
  size_t pitch, first;  // elements from a laid row to the next, and the depth with which they begin
  at_block_of_rows block;
  at_patch patch;
  at_box box;  // which says where pixels are in the scratchpad
} at_rows;

// One tile of columns of some rows: where its sums are in the unit.
typedef struct {
  const at_product* product;
  size_t rows, base;             // rows of sums, the first of them
  size_t column, columns, wide;  // of the chunk: first, how many of it, how many there are in the chunk
} at_sums;

// Rows of floats that the unit's sums take, for any hardware.
size_t at_sums_bytes(const atalla_hardware* hardware);

// Sums begin with the bias, or with zeros; `bias` is that of the chunk.
void at_begin_sums(at_device* device, const at_sums* sums, const float* bias);

// Adds the products of the depth from `from` to `to`; `weights` holds the chunk's panels from there on.
void at_add_products(at_device* device, const at_sums* sums, const at_rows* rows, const char* weights, size_t from,
                     size_t to);

// Whole sums, to their place in [rows][wide] of a scratchpad.
void at_drain_sums(at_device* device, const at_sums* sums, char* to);
