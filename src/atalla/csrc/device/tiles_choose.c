// The search for the fewest blocks of a call's axes of which each fits into a room.
#include "tiles_parts.h"

enum { MOST_TRIES = 20000 };  // blocks of all axes that are looked at: more than there mostly are

unsigned at_axis(at_tiling* t, int64_t extent, int64_t grain) {
  t->extent[t->axes] = t->block[t->axes] = extent;
  t->grain[t->axes] = grain;
  t->order[t->axes] = (uint8_t)t->axes;
  return t->axes++;
}

// The most elements along a dim of a view that a tile has.
static int64_t most_along(const at_tiling* t, const at_view* view, unsigned i, unsigned d) {
  const at_follows f = t->follows[i][d];
  if (f.how == AT_ALONG) return t->block[f.axis];
  if (f.how == AT_WINDOW) return at_window_most(&t->window[d - 2], view->dim[d], t->block[f.axis]);
  if (f.how == AT_PLACES) return at_most_lines(t, t->block[f.axis]);
  return view->dim[d];
}

// Whether parts of a view, put together, are all of it, whatever the blocks are.
static int is_covered(const at_tiling* t, const at_view* view, unsigned i) {
  for (unsigned d = 0; d < view->rank; ++d) {
    if (t->follows[i][d].how == AT_WINDOW || t->follows[i][d].how == AT_PLACES) return 0;
  }
  return 1;
}

// Tiles at least, whatever the blocks are.
static size_t tiles_at_least(const at_tiling* t, size_t room) {
  size_t bytes = 0;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    const at_view* view = at_viewed(&t->call, i);
    at_view dense;
    if (!at_is_there(&t->call, i) || t->in_place >> i & 1 || !is_covered(t, view, i)) continue;
    bytes += at_dense(view, &dense);
  }
  return room ? (bytes + room - 1) / room : 0;
}

// Bytes of a tile's views, each rounded up; SIZE_MAX where blocks are not possible.
size_t at_room_of(const at_tiling* t, size_t align) {
  size_t total = 0;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    if (!at_is_there(&t->call, i) || t->in_place >> i & 1) continue;
    const at_view* view = at_viewed(&t->call, i);
    size_t bytes = at_size(view->dtype);
    for (unsigned d = 0; d < view->rank; ++d) {
      const int64_t most = most_along(t, view, i, d);
      if (most == 0 && t->follows[i][d].how == AT_PLACES) return SIZE_MAX;
      if (view->stride[d] != 0 || most == 0) bytes *= (size_t)most;
    }
    total += (bytes + align - 1) / align * align;
  }
  return total;
}

// A search of blocks: axis by axis, the one that is cut last first, in as few parts as can be.
typedef struct {
  at_tiling* t;
  const at_room* room;
  size_t best, bound;  // tiles
  int64_t block[AT_DIMS];
  int tries;
} search;

static int fits(search* s) {
  ++s->tries;
  return at_room_of(s->t, s->room->align) <= s->room->bytes;
}

// `parts` parts that are as even as whole grains allow.
static int64_t even_block(const at_tiling* t, unsigned axis, int64_t parts) {
  const int64_t block = at_pieces(t->extent[axis], parts), grain = t->grain[axis];
  return block > grain ? at_least(at_pieces(block, grain) * grain, t->extent[axis]) : block;
}

// The last axis to be chosen: as much of it as fits.
static int64_t largest_block(search* s, unsigned axis) {
  int64_t low = 1, high = s->t->extent[axis];
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    s->t->block[axis] = middle;
    if (fits(s)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const int64_t grain = s->t->grain[axis];
  if (low < s->t->extent[axis] && low > grain) low = low / grain * grain;
  return at_least(low, even_block(s->t, axis, at_pieces(s->t->extent[axis], low)));
}

static int has_places(const at_tiling* t, unsigned axis) {
  return t->op == AT_OP_RESIZE2D && t->follows[0][2].how == AT_PLACES && t->follows[0][2].axis == axis;
}

static int is_done(const search* s) { return s->best <= s->bound || s->tries > MOST_TRIES; }

static void choose(search* s, unsigned left, size_t parts) {
  at_tiling* t = s->t;
  if (left == 0) {
    s->best = parts;
    memcpy(s->block, t->block, sizeof s->block);
    return;
  }
  const unsigned axis = t->order[left - 1];
  const int64_t extent = t->extent[axis];
  if (left == 1 && !has_places(t, axis)) {
    t->block[axis] = largest_block(s, axis);
    const size_t all = parts * (size_t)at_pieces(extent, t->block[axis]);
    if (all < s->best) choose(s, 0, all);
    t->block[axis] = 1;
    return;
  }
  for (int64_t k = 1, before = 0; k <= extent && !(is_done(s) && s->best != SIZE_MAX);) {
    const int64_t block = even_block(t, axis, k);
    const size_t all = parts * (size_t)at_pieces(extent, block);
    if (all >= s->best) break;
    t->block[axis] = block;
    if (block != before && fits(s)) choose(s, left - 1, all);
    before = block;
    if (k == extent) break;
    k = at_least(k < 8 ? k + 1 : k + k / 4, extent);
  }
  t->block[axis] = 1;
}

// Outer axes first, and an inner one only where no part of the outer ones is left: parts are neighbours in memory then.
static void choose_nested(search* s) {
  at_tiling* t = s->t;
  s->best = 1;
  for (unsigned a = 0; a < t->axes; ++a) t->block[a] = t->extent[a];
  for (unsigned a = 0; a < t->axes && !fits(s); ++a) {
    t->block[a] = 1;
    if (fits(s)) t->block[a] = largest_block(s, a);
    s->best *= (size_t)at_pieces(t->extent[a], t->block[a]);
  }
  memcpy(s->block, t->block, sizeof s->block);
}

// Axes of one element are cut last: the first is the one of which any part is tried.
static void put_single_last(at_tiling* t) {
  uint8_t order[AT_DIMS];
  unsigned count = 0;
  for (int is_single = 0; is_single < 2; ++is_single) {
    for (unsigned a = 0; a < t->axes; ++a) {
      if ((t->extent[t->order[a]] == 1) == is_single) order[count++] = t->order[a];
    }
  }
  memcpy(t->order, order, count);
}

size_t at_choose_blocks(at_tiling* t, const at_room* room, int nested) {
  search s = {.t = t, .room = room, .best = SIZE_MAX, .bound = tiles_at_least(t, room->bytes)};
  if (nested) {
    choose_nested(&s);
  } else {
    put_single_last(t);
    choose(&s, t->axes, 1);
  }
  memcpy(t->block, s.block, sizeof s.block);
  return s.best;
}
