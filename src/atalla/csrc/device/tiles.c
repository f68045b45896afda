// The tiler: the fewest blocks of the axes of a call that fit, and the views of each.
#include "tiles.h"

#include "tiles_parts.h"

enum { MOST_TRIES = 20000 };  // blocks of all axes that are looked at: more than there mostly are

unsigned at_axis(at_tiling* t, int64_t extent, int64_t grain) {
  t->extent[t->axes] = t->block[t->axes] = extent;
  t->grain[t->axes] = grain;
  t->order[t->axes] = (uint8_t)t->axes;
  return t->axes++;
}

static int64_t pieces(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

// Lines of the source that `count` lines from line `from` on read; `have` are there.
static at_part window_part(const at_window* w, int64_t have, int64_t from, int64_t count) {
  const int64_t first = from * w->stride - w->before;
  const int64_t behind = first + (count - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
  const int64_t begin = least_of(most_of(first, 0), have), end = most_of(least_of(behind, have), begin);
  return (at_part){begin, end - begin, 1};
}

// The most that a block reads: those at the image's edges read less, and of the others the first and the last are
// looked at.
static int64_t window_most(const at_window* w, int64_t have, int64_t extent, int64_t block) {
  const int64_t last = pieces(extent, block) - 1, step = block * w->stride;
  const int64_t reach = (block - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
  const int64_t inside = w->before / step, ends = most_of(have - reach + w->before, 0) / step;
  const int64_t places[] = {0, inside, inside + 1, ends, ends + 1, last - 1, last};
  int64_t most = 0;
  for (unsigned i = 0; i < sizeof places / sizeof *places; ++i) {
    const int64_t place = most_of(least_of(places[i], last), 0), from = place * block;
    most = most_of(most, window_part(w, have, from, least_of(block, extent - from)).count);
  }
  return most;
}

// The most elements along a dim of a view that a tile has.
static int64_t most_along(const at_tiling* t, const at_view* view, unsigned i, unsigned d) {
  const at_follows f = t->follows[i][d];
  if (f.how == AT_ALONG) return t->block[f.axis];
  if (f.how == AT_WINDOW) return window_most(&t->window[d - 2], view->dim[d], t->extent[f.axis], t->block[f.axis]);
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
    at_view* view = at_view_of((at_call*)(uintptr_t)&t->call, i);
    at_view dense;
    if (!at_is_there(&t->call, i) || t->in_place >> i & 1 || !is_covered(t, view, i)) continue;
    bytes += at_dense(view, &dense);
  }
  return room ? (bytes + room - 1) / room : 0;
}

// Bytes of a tile's views, each rounded up; SIZE_MAX where blocks are not possible.
static size_t room_of(const at_tiling* t, size_t align) {
  size_t total = 0;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    if (!at_is_there(&t->call, i) || t->in_place >> i & 1) continue;
    const at_view* view = at_view_of((at_call*)(uintptr_t)&t->call, i);
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
  return room_of(s->t, s->room->align) <= s->room->bytes;
}

// `parts` parts that are as even as whole grains allow.
static int64_t even_block(const at_tiling* t, unsigned axis, int64_t parts) {
  const int64_t block = pieces(t->extent[axis], parts), grain = t->grain[axis];
  return block > grain ? least_of(pieces(block, grain) * grain, t->extent[axis]) : block;
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
  return least_of(low, even_block(s->t, axis, pieces(s->t->extent[axis], low)));
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
    const size_t all = parts * (size_t)pieces(extent, t->block[axis]);
    if (all < s->best) choose(s, 0, all);
    t->block[axis] = 1;
    return;
  }
  for (int64_t k = 1, before = 0; k <= extent && !(is_done(s) && s->best != SIZE_MAX);) {
    const int64_t block = even_block(t, axis, k);
    const size_t all = parts * (size_t)pieces(extent, block);
    if (all >= s->best) break;
    t->block[axis] = block;
    if (block != before && fits(s)) choose(s, left - 1, all);
    before = block;
    if (k == extent) break;
    k = least_of(k < 8 ? k + 1 : k + k / 4, extent);
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
    s->best *= (size_t)pieces(t->extent[a], t->block[a]);
  }
  memcpy(s->block, t->block, sizeof s->block);
}

static int form(at_tiling* t, const at_room* room) {
  switch (t->op) {
    case AT_OP_COPY:
    case AT_OP_FILL:
    case AT_OP_EW:
      at_form_elements(t);
      break;
    case AT_OP_IOTA:
      at_form_iota(t);
      break;
    case AT_OP_REDUCE:
    case AT_OP_SOFTMAX:
    case AT_OP_NORM:
    case AT_OP_CUMSUM:
      at_form_fold(t);
      break;
    case AT_OP_BMM:
      at_form_bmm(t);
      break;
    case AT_OP_ATTENTION:
      at_form_attention(t);
      break;
    case AT_OP_GATHER:
      at_form_gather(t, room);
      break;
    case AT_OP_SCATTER:
      at_form_scatter(t, room);
      break;
    case AT_OP_DWCONV2D:
    case AT_OP_QDWCONV2D:
      at_form_depthwise(t);
      break;
    case AT_OP_POOL2D:
      at_form_pool(t);
      break;
    case AT_OP_RESIZE2D:
      at_form_resize(t);
      break;
    case AT_OP_SAMPLE2D:
      at_form_sample(t);
      break;
    default:
      return ATALLA_BAD_ARGUMENT;
  }
  return ATALLA_OK;
}

int at_cut(uint16_t op, const at_call* call, const at_room* room, at_tiling* tiling) {
  *tiling = (at_tiling){.op = op, .call = *call};
  at_tiling* t = tiling;
  t->call.behind = NULL;
  if (call->word_count <= AT_TILE_WORDS) {
    for (unsigned i = 0; i < call->word_count; ++i) t->words[i] = call->words[i];
  }
  if (at_elements(&call->dst) == 0) return ATALLA_OK;
  const int status = form(t, room);
  if (status != ATALLA_OK) return status;
  search s = {.t = t, .room = room, .best = SIZE_MAX};
  s.bound = tiles_at_least(t, room->bytes);
  for (unsigned a = 0; a < t->axes; ++a) t->block[a] = 1;
  t->least = room_of(t, room->align);
  if (t->least > room->bytes) return ATALLA_TOO_SMALL;
  if (op == AT_OP_GATHER || op == AT_OP_SCATTER) {
    choose_nested(&s);
  } else {
    choose(&s, t->axes, 1);
  }
  memcpy(t->block, s.block, sizeof s.block);
  t->count = s.best;
  return ATALLA_OK;
}

static at_part part_of(const at_tiling* t, unsigned i, unsigned d, int64_t have, const int64_t* from,
                       const int64_t* count) {
  const at_follows f = t->follows[i][d];
  if (f.how == AT_ALONG) return (at_part){from[f.axis], count[f.axis], 1};
  if (f.how == AT_WINDOW) return window_part(&t->window[d - 2], have, from[f.axis], count[f.axis]);
  if (f.how == AT_PLACES) return at_lines_of(t, from[f.axis], count[f.axis]);
  return (at_part){0, have, 1};
}

static void cut_view(const at_tiling* t, unsigned i, const int64_t* from, const int64_t* count, at_view* view) {
  int64_t offset = 0;
  for (unsigned d = 0; d < view->rank; ++d) {
    const at_part part = part_of(t, i, d, view->dim[d], from, count);
    if (part.count > 0) offset += part.first * view->stride[d];
    view->dim[d] = part.count;
    view->stride[d] *= part.every;
  }
  // Views whose memory is not known yet begin at NULL.
  view->data = (char*)((uintptr_t)view->data + (uintptr_t)(offset * (int64_t)at_size(view->dtype)));
}

// What lies outside of an image lies outside of the part that a tile reads, and by as much.
static void set_padding(const at_tiling* t, unsigned d, const int64_t* from, const int64_t* count, int64_t* words) {
  const at_window* w = &t->window[d - 2];
  const unsigned axis = t->follows[0][d].axis;
  const int64_t first = from[axis] * w->stride - w->before;
  const int64_t behind = first + (count[axis] - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
  enum { TO_THE_OTHER_SIDE = 2 };  // words from TOP to BOTTOM, and from LEFT to RIGHT
  words[w->word] = most_of(-first, 0);
  words[w->word + TO_THE_OTHER_SIDE] = most_of(behind - t->call.src[0].dim[d], 0);
}

// The dim that kernels take for dense, -1 for none.
static int dense_dim(uint16_t op, unsigned i) {
  switch (op) {
    case AT_OP_DWCONV2D:
    case AT_OP_QDWCONV2D:
      return i == 0 || i == AT_SOURCES || (op == AT_OP_DWCONV2D && i == 3) ? 1 : -1;
    case AT_OP_POOL2D:
    case AT_OP_RESIZE2D:
      return 1;
    case AT_OP_ATTENTION:
      return i == 0 ? 3 : -1;
    default:
      return -1;
  }
}

// Views that a kernel would not take in the same way from dense memory.
static uint32_t stay_in_place(uint16_t op, const at_call* tile) {
  uint32_t found = 0;
  at_call moved = *tile;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    const int d = dense_dim(op, i);
    if (!at_is_there(tile, i)) continue;
    at_dense(at_view_of((at_call*)(uintptr_t)tile, i), at_view_of(&moved, i));
    const at_view* view = at_view_of(&moved, i);
    if (d >= 0 && view->dim[d] > 1 && view->stride[d] != 1) found |= 1u << i;
  }
  static const uint32_t choices[] = {0, 1, 1u << AT_SOURCES, 1 | 1u << AT_SOURCES};
  for (unsigned k = 0;; ++k) {
    at_call some = moved;
    if (choices[k] & 1) some.src[0] = tile->src[0];
    if (choices[k] >> AT_SOURCES) some.dst = tile->dst;
    if (at_same_way(op, tile, &some)) return found | choices[k];
  }
}

void at_tile(const at_tiling* t, size_t i, at_call* tile, int64_t* words, uint32_t* in_place) {
  int64_t from[AT_DIMS] = {0}, count[AT_DIMS] = {0};
  size_t rest = i;
  for (unsigned a = t->axes; a-- > 0;) {
    const size_t parts = (size_t)pieces(t->extent[a], t->block[a]);
    from[a] = (int64_t)(rest % parts) * t->block[a];
    count[a] = least_of(t->block[a], t->extent[a] - from[a]);
    rest /= parts;
  }
  *tile = t->call;
  for (unsigned v = 0; v < AT_VIEWS; ++v) {
    if (at_is_there(&t->call, v)) cut_view(t, v, from, count, at_view_of(tile, v));
  }
  if (t->call.word_count <= AT_TILE_WORDS) {
    memcpy(words, t->words, sizeof t->words);
    tile->words = words;
  }
  for (unsigned d = 0; d < tile->src[0].rank; ++d) {
    const uint8_t how = t->follows[0][d].how;
    if (how == AT_WINDOW) set_padding(t, d, from, count, words);
    if (how == AT_PLACES) at_resize_words(t, from[t->follows[0][d].axis], count[t->follows[0][d].axis], words);
  }
  if (t->op == AT_OP_IOTA && t->axes) {
    union {
      double number;
      int64_t word;
    } start = {at_number(words[AT_IOTA_START]) + (double)from[0] * at_number(words[AT_IOTA_STEP])};
    words[AT_IOTA_START] = start.word;
  }
  // What earlier tiles of a SCATTER made is what this one begins with.
  if (t->op == AT_OP_SCATTER && i > 0) tile->src[0] = tile->dst;
  *in_place = t->in_place | stay_in_place(t->op, tile);
  tile->work = at_work(t->op, tile);
}
