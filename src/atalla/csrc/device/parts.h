// Parts of products that go to and from the scratchpads: rows, weights, numbers of columns, residuals, results.
#pragma once

#include "matrix.h"

// Regions of what is made of a block of rows and a chunk of columns.
typedef struct {
  at_region sums, residual, made, numbers;
} at_made;

// Rows and columns of a block, so much of the depth, of a product whose rows lie in memory.
at_box at_rows_box(const at_product* p, const at_block_of_rows* b, size_t depth);

// Where element `at` of a block's first row is.
char* at_row_address(const at_view* view, const at_grid* grid, const at_block_of_rows* b, size_t at, size_t size);

// Where a channel of a pixel of the block's first image is.
const char* at_pixel_address(const at_product* p, const at_block_of_rows* b, int64_t y, int64_t x, size_t channel);

// Lays out the rows of a window, and says what that costs; `at` is NULL where no data move.
at_cost at_lay_rows(at_device* device, const at_product* p, const at_block_of_rows* b, size_t group, size_t from,
                    size_t to, char* at);

// Loads panels of a chunk, of so much of the depth: those of group `place`, or of Winograd's `places` from there on.
void at_load_weights(at_device* device, const at_product* p, at_region* region, size_t place, size_t places,
                     size_t column, size_t columns, size_t from, size_t to);

// Bias, or scales, offsets and sums of weights; `column` counts from the first of all groups. Those that are loaded
// late are waited for by the vector unit alone.
void at_load_numbers(at_device* device, const at_product* p, at_region* to, size_t column, size_t columns,
                     bool is_late);

void at_load_residual(at_device* device, const at_product* p, at_made* made, const at_block_of_rows* b, size_t group,
                      size_t column, size_t columns);

// Finishes whole sums, and stores them.
void at_finish_rows(at_device* device, const at_product* p, at_made* made, const at_block_of_rows* b, size_t group,
                    size_t column, size_t columns);

// Stores what was made of a block.
void at_store_made(at_device* device, const at_product* p, at_region* made, const at_block_of_rows* b, size_t group,
                   size_t column, size_t columns);

// A micro-operation of the matrix unit.
void at_issue_matrix(at_device* device, unsigned kind, uint64_t cycles, at_region* one, at_region* other,
                     at_region* write);

// What the activation of a product is; NONE of int8.
int64_t at_activation_of(const at_product* p);
