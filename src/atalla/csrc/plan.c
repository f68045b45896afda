// Plans: by best fit in several orders; where the best is above the bound, by an exact search, as far as it gets.
#include "plan.h"

#include <stdbool.h>
#include <stdlib.h>

#include "internal.h"
#include "search.h"

enum { MOST_SEARCHED = 2048 };  // buffers; the search goes as deep as there are

typedef struct {
  uint64_t size;  // a multiple of the alignment
  uint32_t first, last;
  uint32_t number;
} buffer;

static uint64_t span(const buffer* one) { return (uint64_t)one->last - one->first + 1; }

static int down(uint64_t a, uint64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

static int by_first(const buffer* a, const buffer* b) {
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static int by_size(const void* x, const void* y) {
  const buffer *a = x, *b = y;
  const int size = down(a->size, b->size), time = down(span(a), span(b));
  return size ? size : time ? time : by_first(a, b);
}

static int by_area(const void* x, const void* y) {
  const buffer *a = x, *b = y;
  const unsigned __int128 one = (unsigned __int128)a->size * span(a), other = (unsigned __int128)b->size * span(b);
  return one < other ? 1 : one > other ? -1 : by_first(a, b);
}

static int by_span(const void* x, const void* y) {
  const buffer *a = x, *b = y;
  const int time = down(span(a), span(b)), size = down(a->size, b->size);
  return time ? time : size ? size : by_first(a, b);
}

// Places each buffer into the smallest gap that holds it between those that it meets; returns the arena's bytes.
static uint64_t best_fit(const buffer* buffers, size_t count, uint32_t* placed, uint64_t* at) {
  uint64_t peak = 0;
  for (size_t i = 0; i < count; ++i) {  // `placed` are the i before, in the order of their places
    const buffer* one = &buffers[i];
    uint64_t end = 0, best = 0, smallest = UINT64_MAX;
    for (size_t k = 0; k < i; ++k) {
      const buffer* other = &buffers[placed[k]];
      if (other->last < one->first || one->last < other->first) continue;
      const uint64_t begin = at[placed[k]], gap = begin > end ? begin - end : 0;
      if (gap >= one->size && gap < smallest) {
        best = end;
        smallest = gap;
      }
      if (begin + other->size > end) end = begin + other->size;
    }
    at[i] = smallest == UINT64_MAX ? end : best;
    if (at[i] + one->size > peak) peak = at[i] + one->size;
    size_t k = i;
    for (; k > 0 && at[placed[k - 1]] > at[i]; --k) placed[k] = placed[k - 1];
    placed[k] = (uint32_t)i;
  }
  return peak;
}

int at_plan_greedy(size_t count, const uint64_t* size, const uint32_t* first, const uint32_t* last, uint64_t align,
                   uint64_t* offset, uint64_t* peak) {
  static int (*const orders[])(const void*, const void*) = {by_size, by_area, by_span};
  *peak = 0;
  if (!count) return ATALLA_OK;
  if (!align || count > UINT32_MAX) return ATALLA_BAD_ARGUMENT;
  buffer* buffers = calloc(count, sizeof *buffers);
  uint32_t* placed = calloc(count, sizeof *placed);
  uint64_t* at = calloc(count, sizeof *at);
  int status = buffers && placed && at ? ATALLA_OK : ATALLA_OUT_OF_MEMORY;
  uint64_t total = 0;
  for (size_t i = 0; i < count && !status; ++i) {
    const uint64_t most = (uint64_t)INT64_MAX / 2;
    if (align > most || size[i] > most || last[i] < first[i]) {
      status = ATALLA_BAD_ARGUMENT;
      break;
    }
    buffers[i] = (buffer){(size[i] + align - 1) / align * align, first[i], last[i], (uint32_t)i};
    total += buffers[i].size;
    if (total > most) status = ATALLA_BAD_ARGUMENT;
  }
  for (size_t k = 0; k < sizeof orders / sizeof *orders && !status; ++k) {
    qsort(buffers, count, sizeof *buffers, orders[k]);
    const uint64_t found = best_fit(buffers, count, placed, at);
    if (k && found >= *peak) continue;
    *peak = found;
    for (size_t i = 0; i < count; ++i) offset[buffers[i].number] = at[i];
  }
  free(buffers);
  free(placed);
  free(at);
  return status;
}

// What is planned, without the buffers that have no bytes.
typedef struct {
  size_t count;
  uint64_t* size;  // aligned
  uint32_t *first, *last, *number;
} kept;

static int keep(const atalla_planning* p, kept* k) {
  const size_t room = p->count ? p->count : 1;
  k->size = calloc(room, sizeof *k->size);
  k->first = calloc(room, sizeof *k->first);
  k->last = calloc(room, sizeof *k->last);
  k->number = calloc(room, sizeof *k->number);
  if (!k->size || !k->first || !k->last || !k->number) return ATALLA_OUT_OF_MEMORY;
  for (size_t i = 0; i < p->count; ++i) {
    if (!p->size[i]) continue;
    k->size[k->count] = (p->size[i] + p->align - 1) / p->align * p->align;
    k->first[k->count] = p->first[i];
    k->last[k->count] = p->last[i];
    k->number[k->count++] = (uint32_t)i;
  }
  return ATALLA_OK;
}

// Takes over what a search found.
static void take(atalla_planning* p, const kept* k, const at_search* s) {
  p->peak = 0;
  for (uint32_t i = 0; i < s->count; ++i) {
    const at_item* one = &s->items[i];
    p->offset[k->number[one->number]] = one->floor;
    if (one->floor + one->size > p->peak) p->peak = one->floor + one->size;
  }
}

// Looks for a plan as small as the bound, then for what lies between it and the best that is known.
static void narrow(atalla_planning* p, const kept* k, at_search* s) {
  uint64_t capacity = p->bound, hopeless = 0;  // capacities below it were given up
  for (uint64_t nodes = p->nodes / 2; p->bound < p->peak && s->nodes < p->nodes && nodes; nodes = p->nodes / 8) {
    const uint64_t left = p->nodes - s->nodes;
    const at_outcome made = at_search_decide(s, capacity, nodes < left ? nodes : left);
    if (made == AT_FOUND) take(p, k, s);
    if (made == AT_FAILED) p->bound = capacity + s->grain;
    if (made == AT_GAVE_UP) hopeless = capacity + s->grain;
    const uint64_t low = hopeless > p->bound ? hopeless : p->bound;
    if (low >= p->peak || s->no_memory) break;
    capacity = low + (p->peak - s->grain - low) / s->grain / 2 * s->grain;
  }
}

typedef struct {
  uint64_t step, size;
  bool begins;
} event;

static int by_step(const void* x, const void* y) {
  const event *a = x, *b = y;
  if (a->step != b->step) return a->step < b->step ? -1 : 1;
  return (int)a->begins - (int)b->begins;
}

// The most bytes that are alive at one step.
static int max_live(const kept* k, uint64_t* bound) {
  event* events = calloc(k->count ? 2 * k->count : 1, sizeof *events);
  if (!events) return ATALLA_OUT_OF_MEMORY;
  for (size_t i = 0; i < k->count; ++i) {
    events[2 * i] = (event){k->first[i], k->size[i], true};
    events[2 * i + 1] = (event){(uint64_t)k->last[i] + 1, k->size[i], false};
  }
  qsort(events, 2 * k->count, sizeof *events, by_step);
  uint64_t alive = 0;
  for (size_t i = 0; i < 2 * k->count; ++i) {
    alive = events[i].begins ? alive + events[i].size : alive - events[i].size;
    if (alive > *bound) *bound = alive;
  }
  free(events);
  return ATALLA_OK;
}

static int plan(atalla_planning* p, kept* k) {
  int status = keep(p, k);
  if (!status) status = max_live(k, &p->bound);
  if (status || p->bound == p->peak || !p->nodes || k->count > MOST_SEARCHED) return status;
  at_search* s = NULL;
  status = at_search_new(k->count, k->size, k->first, k->last, &s);
  if (status) return status;
  s->deadline = p->deadline_ns ? at_now() + p->deadline_ns : 0;
  narrow(p, k, s);
  p->searched = s->nodes;
  status = s->no_memory ? ATALLA_OUT_OF_MEMORY : ATALLA_OK;
  at_search_free(s);
  return status;
}

int atalla_plan(atalla_planning* p, atalla_error* error) {
  if (!p || p->struct_size < sizeof *p || !p->align || (p->count && !(p->size && p->first && p->last && p->offset))) {
    return at_fail(error, ATALLA_BAD_ARGUMENT, "a null pointer, or a structure of another version");
  }
  p->bound = p->searched = 0;
  int status = at_plan_greedy(p->count, p->size, p->first, p->last, p->align, p->offset, &p->peak);
  if (status == ATALLA_BAD_ARGUMENT) return at_fail(error, status, "buffers are too large, or end before they begin");
  kept k = {0};
  if (!status) status = plan(p, &k);
  free(k.size);
  free(k.first);
  free(k.last);
  free(k.number);
  return status ? at_fail(error, status, "out of memory") : ATALLA_OK;
}
