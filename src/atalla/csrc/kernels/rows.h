// Rows: where the rows of a matrix begin that is a view of some tensor. Most lie evenly; others are found by pointers.
#pragma once

#include "../internal.h"

// Row i is at `first + i · step`, or where `at[i]` says.
typedef struct {
  float* const* at;
  float* first;
  int64_t step;
} rows;

static inline float* row_at(const rows* r, size_t i) { return r->at ? r->at[i] : r->first + (int64_t)i * r->step; }

static inline int are_there(const rows* r) { return r->at || r->first; }

// The rows of some dims of a view, the last of them fastest: `dim[i]` steps of `stride[i]` floats.
typedef struct {
  unsigned rank;
  int64_t dim[AT_DIMS], stride[AT_DIMS];
} way;

// All dims but the last, which is the row itself.
static inline way way_of(const at_view* view) {
  way found = {.rank = view->rank - 1u};
  for (unsigned i = 0; i < found.rank; ++i) {
    found.dim[i] = view->dim[i];
    found.stride[i] = view->stride[i];
  }
  return found;
}

// The pixels of an image of `like`'s size; `down` and `right` are pixels of the view from one to the next.
static inline way pixels_of(const at_view* view, const at_view* like, int64_t down, int64_t right) {
  return (way){.rank = 3,
               .dim = {like->dim[0], like->dim[2], like->dim[3]},
               .stride = {view->stride[0], view->stride[2] * down, view->stride[3] * right}};
}

// Whether all steps are the same; a dim of one row has none, whatever its stride is.
static inline int is_even(const way* w) {
  int64_t step = w->stride[w->rank - 1] * w->dim[w->rank - 1];
  for (unsigned i = w->rank - 1; i-- > 0;) {
    if (w->dim[i] == 1) continue;
    if (w->stride[i] != step) return 0;
    step *= w->dim[i];
  }
  return 1;
}

// A row's number along each dim, and where it begins.
typedef struct {
  int64_t index[AT_DIMS], offset;
} row_place;

static inline row_place place_of(const way* w, size_t row) {
  row_place found = {.offset = 0};
  for (unsigned i = w->rank; i-- > 0;) {
    found.index[i] = (int64_t)(row % (size_t)w->dim[i]);
    found.offset += found.index[i] * w->stride[i];
    row /= (size_t)w->dim[i];
  }
  return found;
}

static inline void next_row(const way* w, row_place* place) {
  for (unsigned i = w->rank; i-- > 0;) {
    place->offset += w->stride[i];
    if (++place->index[i] < w->dim[i]) break;
    place->offset -= w->dim[i] * w->stride[i];
    place->index[i] = 0;
  }
}

// `count` rows from row `from` on; pointers go to `room` where the way is not even.
static inline rows rows_from(const way* w, float* data, size_t from, size_t count, float** room) {
  if (w->rank == 0) return (rows){.first = data};
  const unsigned last = w->rank - 1;
  if (is_even(w)) return (rows){.first = data + (int64_t)from * w->stride[last], .step = w->stride[last]};
  row_place place = place_of(w, from);
  for (size_t done = 0; done < count; ++done, next_row(w, &place)) room[done] = data + place.offset;
  return (rows){.at = room};
}

// Which of `count` places lie inside of `size`, the first at `start` and `stride` from one to the next.
typedef struct {
  int64_t from, to;
} span;

static inline span span_inside(int64_t start, int64_t stride, int64_t size, int64_t count) {
  const int64_t from = start >= 0 ? 0 : (-start + stride - 1) / stride;
  const int64_t to = start >= size ? 0 : (size - start + stride - 1) / stride;
  span found = {from < count ? from : count, to < count ? to : count};
  if (found.to < found.from) found.to = found.from;
  return found;
}
