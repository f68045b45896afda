// The tiler: a call's form, its blocks, and the views and attributes of each tile.
#include "tiles.h"

#include "tiles_parts.h"

static int form(at_tiling* t) {
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
      at_form_gather(t);
      break;
    case AT_OP_SCATTER:
      at_form_scatter(t);
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
  const int status = form(t);
  if (status != ATALLA_OK) return status;
  for (unsigned a = 0; a < t->axes; ++a) t->block[a] = 1;
  t->least = at_room_of(t, room->align);
  if (t->least > room->bytes) return ATALLA_TOO_SMALL;
  const int by_rows = op == AT_OP_GATHER || op == AT_OP_SCATTER;
  if (by_rows) at_move_in(t, room);
  t->count = at_choose_blocks(t, room, by_rows);
  return ATALLA_OK;
}

static at_part part_of(const at_tiling* t, unsigned i, unsigned d, int64_t have, const int64_t* from,
                       const int64_t* count) {
  const at_follows f = t->follows[i][d];
  if (f.how == AT_ALONG) return (at_part){from[f.axis], count[f.axis], 1};
  if (f.how == AT_WINDOW) return at_window_part(&t->window[d - 2], have, from[f.axis], count[f.axis]);
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
  words[w->word] = at_most(-first, 0);
  words[w->word + TO_THE_OTHER_SIDE] = at_most(behind - t->call.src[0].dim[d], 0);
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
    at_dense(at_viewed(tile, i), at_view_of(&moved, i));
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
    const size_t parts = (size_t)at_pieces(t->extent[a], t->block[a]);
    from[a] = (int64_t)(rest % parts) * t->block[a];
    count[a] = at_least(t->block[a], t->extent[a] - from[a]);
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
    words[AT_IOTA_START] = at_word(at_number(words[AT_IOTA_START]) + (double)from[0] * at_number(words[AT_IOTA_STEP]));
  }
  // What earlier tiles of a SCATTER made is what this one begins with.
  if (t->op == AT_OP_SCATTER && i > 0) tile->src[0] = tile->dst;
  *in_place = t->in_place | stay_in_place(t->op, tile);
  tile->work = at_work(t->op, tile);
}
