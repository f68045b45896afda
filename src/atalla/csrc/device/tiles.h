// Tiles: an instruction that is no product, cut into calls on parts of its views that fit into a room.
//
// The fast kernel, run on all tiles in order, computes the bits that it computes on the whole call, in either of two
// ways: where the views lie, or on copies of them in dense memory (see at_dense). Tiles write each element of dst once,
// but for a SCATTER that is done in place. What no part of the views can keep is not cut: sums are never taken apart.
//
// A copy where a kernel would take another way, so that it rounds in another order, is none: at_tile says that such a
// view stays where it is. That happens to REDUCE and NORM of views with gaps only.
//
// The filters of DWCONV2D and QDWCONV2D are the exception to the first way: a kernel takes them as dense, so that those
// of some channels have to be copied. Their view is [taps, channels] in tiles, with its strides.
#pragma once

#include "../internal.h"

// How much room a tile's views may take together: each dense, in its own element type, rounded up to `align` bytes.
typedef struct {
  size_t bytes, align;
} at_room;

enum {
  AT_VIEWS = AT_SOURCES + 1,  // the sources, and dst behind them
  AT_TILE_WORDS = 16,         // that at_tile writes at most
};

// View `i`: a source, or dst.
static inline const at_view* at_viewed(const at_call* call, unsigned i) {
  return i == AT_SOURCES ? &call->dst : &call->src[i];
}

static inline at_view* at_view_of(at_call* call, unsigned i) { return i == AT_SOURCES ? &call->dst : &call->src[i]; }

static inline int at_is_there(const at_call* call, unsigned i) { return i == AT_SOURCES || call->present >> i & 1; }

// Which part of a dim of a view belongs to a part of an axis along which a call is cut.
enum { AT_WHOLE, AT_ALONG, AT_WINDOW, AT_PLACES };

typedef struct {
  uint8_t how, axis;
} at_follows;

// What a window of an image reads along one of its two dims; `word` is the number of the attribute TOP or LEFT.
typedef struct {
  int64_t stride, dilation, kernel, before;
  unsigned word;
} at_window;

// How a call is cut. Callers read `count` and `least`.
typedef struct {
  size_t count;  // tiles; 0 where dst has no elements
  size_t least;  // bytes of the smallest room in which the call can be run
  uint16_t op;
  at_call call;  // the whole, perhaps with other dims for the same elements
  int64_t words[AT_TILE_WORDS];
  uint32_t in_place;
  unsigned axes;
  uint8_t order[AT_DIMS];  // of axes: which is cut first
  int64_t extent[AT_DIMS], grain[AT_DIMS], block[AT_DIMS];
  at_follows follows[AT_VIEWS][AT_DIMS];
  at_window window[2];  // of lines and of columns
} at_tiling;

// Cuts a call into tiles that fit; ATALLA_OK, or ATALLA_TOO_SMALL where even the smallest does not: `tiling->least`
// says the bytes that it takes. The call has to live as long as the tiling.
int at_cut(uint16_t op, const at_call* call, const at_room* room, at_tiling* tiling);

// Tile `i` as a call on parts of the same views; changed attributes go to `words`, AT_TILE_WORDS of them. Bit `i` of
// `in_place` says that source `i` stays where it is, bit AT_SOURCES that dst does: because data decides which of its
// rows are meant, or because a dense copy would be added up in another order.
void at_tile(const at_tiling* tiling, size_t i, at_call* tile, int64_t* words, uint32_t* in_place);

// The view as it is when its elements are copied to dense memory, and the bytes that it takes. Dims keep their order in
// memory, which is that of their strides' sizes; of equals the later one is the inner one. A stride of 0 stays 0, and
// its dim takes no memory; a negative one becomes positive; what overlaps does no more. `dense` has the same data.
size_t at_dense(const at_view* view, at_view* dense);
