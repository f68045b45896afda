// How operations on elements, along dims, of matrices and of rows of tables are cut.
#include <math.h>

#include "tiles_parts.h"

static const int64_t LINE_OF_FLOATS = AT_LINE / 4;

static void follow_all(at_tiling* t, unsigned view, unsigned dims, unsigned first_axis) {
  for (unsigned d = 0; d < dims; ++d) at_follow(t, view, d, AT_ALONG, first_axis + d);
}

// Axes of merged dims; the last one, whose elements are neighbours, in whole lines.
static void merged_axes(at_tiling* t, const at_merged* merged, int64_t grain) {
  for (unsigned d = 0; d < merged->rank; ++d) at_axis(t, merged->dim[d], d + 1 == merged->rank ? grain : 1);
}

// COPY, FILL, EW: any part of dst is made of the same part of all sources.
void at_form_elements(at_tiling* t) {
  const at_view* views[AT_VIEWS] = {&t->call.dst};
  unsigned numbers[AT_VIEWS] = {AT_SOURCES}, count = 1;
  for (unsigned i = 0; i < t->call.sources; ++i) {
    numbers[count] = i;
    views[count++] = &t->call.src[i];
  }
  const at_merged merged = at_merge(views, count, ~0u);
  merged_axes(t, &merged, LINE_OF_FLOATS);
  for (unsigned v = 0; v < count; ++v) {
    at_put_dims(at_view_of(&t->call, numbers[v]), &merged, v);
    follow_all(t, numbers[v], merged.rank, 0);
  }
}

// The largest power of two of which a number is a multiple, as an exponent.
static int lowest_bit(double number) {
  int exponent;
  const int64_t whole = (int64_t)ldexp(frexp(number, &exponent), 53);
  return exponent - 53 + __builtin_ctzll((uint64_t)whole);
}

// Whether start + i · step, for all i up to a count, is not rounded: then it may begin anywhere.
static int is_exact(double start, double step, int64_t count) {
  if (!isfinite(start) || !isfinite(step)) return 0;
  const double most = fabs(start) + (double)count * fabs(step);
  if (most == 0) return 1;
  const int a = start != 0 ? lowest_bit(start) : lowest_bit(step), b = step != 0 ? lowest_bit(step) : a;
  return most <= ldexp(1.0, 52 + (a < b ? a : b));
}

void at_form_iota(at_tiling* t) {
  const int64_t count = t->call.dst.dim[0];
  if (!is_exact(at_number(t->words[AT_IOTA_START]), at_number(t->words[AT_IOTA_STEP]), count)) return;
  at_axis(t, count, LINE_OF_FLOATS);
  follow_all(t, AT_SOURCES, 1, 0);
}

// Dims that a REDUCE, SOFTMAX, NORM or CUMSUM goes along.
static uint32_t folded_dims(const at_tiling* t) {
  const unsigned rank = t->call.src[0].rank;
  if (t->op == AT_OP_REDUCE) return (uint32_t)t->words[AT_REDUCE_DIMS];
  if (t->op == AT_OP_NORM) return ((1u << t->words[AT_NORM_DIMS]) - 1) << (rank - (unsigned)t->words[AT_NORM_DIMS]);
  return 1u << (t->op == AT_OP_SOFTMAX ? t->words[AT_SOFTMAX_AXIS] : t->words[AT_CUMSUM_AXIS]);
}

// The kept dims come first then, as few as can be, and those that are gone along behind them.
static void put_kept_first(at_tiling* t, uint32_t gone) {
  const at_view src = t->call.src[0], dst = t->call.dst, *views[] = {&dst, &src};
  at_merged merged = at_merge(views, 2, ~gone);
  at_put_dims(&t->call.dst, &merged, 0);
  at_put_dims(&t->call.src[0], &merged, 1);
  for (unsigned d = 0; d < src.rank; ++d) {
    if (!(gone >> d & 1)) continue;
    at_push_dim(&t->call.dst, dst.dim[d], dst.stride[d]);
    at_push_dim(&t->call.src[0], src.dim[d], src.stride[d]);
  }
  const unsigned rank = t->call.src[0].rank, kept = merged.rank;
  if (t->op == AT_OP_REDUCE) t->words[AT_REDUCE_DIMS] = (int64_t)((1u << rank) - (1u << kept));
  if (t->op == AT_OP_SOFTMAX) t->words[AT_SOFTMAX_AXIS] = kept;
  if (t->op == AT_OP_CUMSUM) t->words[AT_CUMSUM_AXIS] = kept;
}

// What is gone along stays whole: its sums have one order.
void at_form_fold(at_tiling* t) {
  const at_call whole = t->call;
  const at_tiling before = *t;
  const uint32_t gone = folded_dims(t);
  put_kept_first(t, gone);
  t->call.words = t->words;
  const int is_same = at_same_way(t->op, &whole, &t->call);
  if (!is_same) *t = before;
  const uint32_t left = folded_dims(t);
  for (unsigned d = 0; d < t->call.dst.rank; ++d) {
    if (left >> d & 1) continue;
    const unsigned axis = at_axis(t, t->call.dst.dim[d], t->call.dst.stride[d] == 1 ? LINE_OF_FLOATS : 1);
    at_follow(t, AT_SOURCES, d, AT_ALONG, axis);
    at_follow(t, 0, d, AT_ALONG, axis);
  }
  t->call.words = whole.words;
}

void at_form_bmm(at_tiling* t) {
  at_view *dst = &t->call.dst, *a = &t->call.src[0], *b = &t->call.src[1];
  const unsigned m = dst->rank - 2u, n = dst->rank - 1u;
  const at_view was[] = {*dst, *a, *b}, *views[] = {&was[0], &was[1], &was[2]};
  const at_merged merged = at_merge(views, 3, (1u << m) - 1);
  at_view* made[] = {dst, a, b};
  for (unsigned v = 0; v < 3; ++v) {
    at_put_dims(made[v], &merged, v);
    at_push_dim(made[v], was[v].dim[m], was[v].stride[m]);
    at_push_dim(made[v], was[v].dim[n], was[v].stride[n]);
  }
  const unsigned batches = merged.rank;
  merged_axes(t, &merged, 1);
  follow_all(t, AT_SOURCES, batches, 0);
  follow_all(t, 0, batches, 0);
  follow_all(t, 1, batches, 0);
  const unsigned rows = at_axis(t, dst->dim[batches], 1), columns = at_axis(t, dst->dim[batches + 1], AT_PANEL);
  at_follow(t, AT_SOURCES, batches, AT_ALONG, rows);
  at_follow(t, 0, batches, AT_ALONG, rows);
  at_follow(t, AT_SOURCES, batches + 1, AT_ALONG, columns);
  at_follow(t, 1, batches + 1, AT_ALONG, columns);
}

// All keys of a head are needed at once, but not all queries, unless their numbers say which keys they see. What comes
// last are elements of the values, for which all shares are found again.
void at_form_attention(at_tiling* t) {
  const at_view* dst = &t->call.dst;
  for (unsigned d = 0; d < 4; ++d) {
    if (d == 2 && t->words[AT_ATTENTION_CAUSAL]) continue;
    const unsigned axis = at_axis(t, dst->dim[d], d == 3 ? AT_PANEL : 1);
    at_follow(t, AT_SOURCES, d, AT_ALONG, axis);
    if (d == 3) at_follow(t, 2, d, AT_ALONG, axis);
    if (d < 3) at_follow(t, 0, d, AT_ALONG, axis);
    if (d < 2) at_follow(t, 1, d, AT_ALONG, axis);
    if (d < 2) at_follow(t, 2, d, AT_ALONG, axis);
    if (d < 3) at_follow(t, 3, d, AT_ALONG, axis);
  }
}

// Rows of a GATHER's dst or a SCATTER's updates, and the indices that they belong to: as few dims as can be, and one of
// a row's elements behind them. Rows are contiguous.
static void take_rows(at_tiling* t, unsigned rows, unsigned index, unsigned row_rank) {
  at_view *of = at_view_of(&t->call, rows), *by = &t->call.src[index];
  const at_view was[] = {*of, *by}, *views[] = {&was[0], &was[1]};
  const at_merged merged = at_merge(views, 2, (1u << by->rank) - 1);
  int64_t length = 1;
  for (unsigned d = by->rank; d < was[0].rank; ++d) length *= was[0].dim[d];
  at_put_dims(of, &merged, 0);
  at_put_dims(by, &merged, 1);
  if (row_rank) at_push_dim(of, length, 1);
  for (unsigned d = 0; d < merged.rank; ++d) {
    if (merged.dim[d] == 0) continue;  // a SCATTER of nothing copies
    const unsigned axis = at_axis(t, merged.dim[d], 1);
    at_follow(t, rows, d, AT_ALONG, axis);
    at_follow(t, index, d, AT_ALONG, axis);
  }
}

static size_t dense_bytes(const at_view* view, size_t align) {
  at_view dense;
  return (at_dense(view, &dense) + align - 1) / align * align;
}

// It is not known what is read of a table: it stays where it is.
void at_form_gather(at_tiling* t) {
  t->in_place = 1;
  take_rows(t, AT_SOURCES, 1, t->call.src[0].rank - 1u);
}

// Updates come in parts to dst, which stays where it is.
void at_form_scatter(at_tiling* t) {
  t->in_place = 1 | 1u << AT_SOURCES;
  take_rows(t, 2, 1, t->call.dst.rank - 1u);
}

void at_move_in(at_tiling* t, const at_room* room) {
  enum { SHARE = 4 };  // of the room
  const size_t table = dense_bytes(&t->call.src[0], room->align), made = dense_bytes(&t->call.dst, room->align);
  if (t->op == AT_OP_GATHER && table <= room->bytes / SHARE && table <= made && t->least + table <= room->bytes) {
    t->in_place = 0;
  }
  if (t->op != AT_OP_SCATTER) return;
  const size_t updates = dense_bytes(&t->call.src[1], room->align) + dense_bytes(&t->call.src[2], room->align);
  if (table + made + updates > room->bytes) return;
  t->in_place = 0;
  t->axes = 0;
  memset(t->follows, 0, sizeof t->follows);
}
