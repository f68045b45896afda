// What the files of the tiler share: how each operation's dims follow the axes along which it is cut.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "tiles.h"

// Dims of several views of one shape, the outermost of the first view first: those of one element are left out, and
// those that lie behind each other in all views are one.
typedef struct {
  unsigned rank;
  int64_t dim[AT_DIMS], stride[AT_VIEWS][AT_DIMS];
} at_merged;

at_merged at_merge(const at_view* const* views, unsigned count, uint32_t dims);

// Sets a view's dims to the merged ones, with its strides: those of view `which`.
void at_put_dims(at_view* view, const at_merged* merged, unsigned which);
void at_push_dim(at_view* view, int64_t dim, int64_t stride);

static inline int64_t at_pieces(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

static inline int64_t at_least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t at_most(int64_t a, int64_t b) { return a > b ? a : b; }

// One more axis; returns its number.
unsigned at_axis(at_tiling* t, int64_t extent, int64_t grain);

static inline void at_follow(at_tiling* t, unsigned view, unsigned dim, uint8_t how, unsigned axis) {
  t->follows[view][dim] = (at_follows){how, (uint8_t)axis};
}

// Adds axes, and says what follows them; one for each family of operations.
void at_form_elements(at_tiling* t);
void at_form_iota(at_tiling* t);
void at_form_fold(at_tiling* t);
void at_form_bmm(at_tiling* t);
void at_form_attention(at_tiling* t);
void at_form_gather(at_tiling* t);
void at_form_scatter(at_tiling* t);
void at_form_depthwise(at_tiling* t);
void at_form_pool(at_tiling* t);
void at_form_resize(at_tiling* t);
void at_form_sample(at_tiling* t);

// Moves what stays where it is into a room after all: a table that is small, and of which much is taken; a SCATTER of
// which everything fits, which is one tile then.
void at_move_in(at_tiling* t, const at_room* room);

// A part of a dim: its first element, how many, and how many of the view's from one to the next.
typedef struct {
  int64_t first, count, every;
} at_part;

// Lines of the source, of which there are `have`, that `count` lines from line `from` on read; and the most that a
// block reads, or more where windows lie outside of the image: never less than a smaller block.
at_part at_window_part(const at_window* w, int64_t have, int64_t from, int64_t count);
int64_t at_window_most(const at_window* w, int64_t have, int64_t block);

// Lines of the source that some lines of a resized image are made of.
at_part at_lines_of(const at_tiling* t, int64_t from, int64_t count);
// The most lines that any block reads, or 0 where lines in such blocks would not be the same.
int64_t at_most_lines(const at_tiling* t, int64_t block);
void at_resize_words(const at_tiling* t, int64_t from, int64_t count, int64_t* words);

// Bytes of a tile's views, each rounded up; SIZE_MAX where blocks are not possible.
size_t at_room_of(const at_tiling* t, size_t align);
// Finds blocks, of which the smallest fit, and returns the number of tiles. Nested ones are neighbours in memory.
size_t at_choose_blocks(at_tiling* t, const at_room* room, int nested);

// Whether the kernel adds up in the same order on two calls that differ in strides only.
int at_same_way(uint16_t op, const at_call* one, const at_call* other);
