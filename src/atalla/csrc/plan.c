// Plans by best fit: several orders are tried, the smallest plan is kept.
#include "plan.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "atalla.h"

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

// Places each buffer into the smallest gap that holds it between those that it meets; gives the arena's bytes.
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
