// Views of any strides, and numbers to fill them with, made by a seed.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/tiles.h"

typedef struct {
  uint64_t state;
  char* blocks[AT_VIEWS];  // of memory
  size_t bytes[AT_VIEWS];
  int64_t words[AT_STEPS];
  int odd;  // whether numbers are any at all
} made;

static inline uint64_t next(made* m) {
  uint64_t x = m->state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static inline int64_t below(made* m, int64_t count) { return (int64_t)(next(m) % (uint64_t)count); }

static inline int64_t between_of(made* m, int64_t least, int64_t most) { return least + below(m, most - least + 1); }

static inline int one_in(made* m, int64_t count) { return below(m, count) == 0; }

#define ONE_OF(M, TYPE, ...) \
  (((const TYPE[]){__VA_ARGS__})[below(M, sizeof((const TYPE[]){__VA_ARGS__}) / sizeof(TYPE))])

static inline double number(made* m) { return (double)(int64_t)(next(m) >> 11) / (double)(1ll << 52) - 1.0; }

static inline int64_t word_of(double value) {
  int64_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}

static inline float any_float(made* m) {
  if (m->odd && one_in(m, 9))
    return ONE_OF(m, float, 0.0f, -0.0f, 1.0f, -1.0f, 1e-40f, 1e30f, -1e30f, 1.0f / 0.0f, -1.0f / 0.0f);
  return (float)(number(m) * (one_in(m, 8) ? 50.0 : 2.0));
}

static inline void fill_memory(made* m, uint8_t dtype, char* at, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (dtype == AT_F32) ((float*)(void*)at)[i] = any_float(m);
    if (dtype == AT_F64) ((double*)(void*)at)[i] = any_float(m);
    if (dtype == AT_F16) ((uint16_t*)(void*)at)[i] = (uint16_t)(next(m) & 0xbbffu);
    if (dtype == AT_BF16) ((uint16_t*)(void*)at)[i] = (uint16_t)(next(m) & 0xbfffu);
    if (dtype == AT_I64) ((int64_t*)(void*)at)[i] = one_in(m, 5) ? (int64_t)next(m) : below(m, 9) - 3;
    if (dtype == AT_I32) ((int32_t*)(void*)at)[i] = one_in(m, 5) ? (int32_t)next(m) : (int32_t)below(m, 9) - 3;
    if (dtype == AT_I16) ((int16_t*)(void*)at)[i] = (int16_t)next(m);
    if (dtype == AT_I8 || dtype == AT_U8) at[i] = (char)next(m);
    if (dtype == AT_BOOL) at[i] = (char)below(m, 2);
  }
}

// How a view may lie. `inner`: the dim whose elements are neighbours, or −1; contiguous: dims in their own order.
typedef struct {
  int inner, is_dst, contiguous, plain;
} lying;

// View `i` of a call with memory of its own, exactly as much as it reaches.
static inline void make_view(made* m, at_call* call, unsigned i, uint8_t dtype, unsigned rank, const int64_t* dim,
                             lying how) {
  at_view* view = i == AT_SOURCES ? &call->dst : &call->src[i];
  *view = (at_view){.dtype = dtype, .rank = (uint8_t)rank};
  unsigned order[AT_DIMS];
  for (unsigned d = 0; d < rank; ++d) {
    view->dim[d] = dim[d];
    order[d] = d;
  }
  const int in_order = how.contiguous || how.plain || one_in(m, 3);
  for (unsigned d = rank; d-- > 1 && !in_order;) {
    const unsigned other = (unsigned)below(m, d + 1), kept = order[d];
    order[d] = order[other];
    order[other] = kept;
  }
  for (unsigned d = 0; d + 1 < rank && how.inner >= 0; ++d) {
    if (order[d] != (unsigned)how.inner) continue;
    order[d] = order[d + 1];
    order[d + 1] = (unsigned)how.inner;
  }
  const int is_loose = !how.contiguous && one_in(m, 2), is_broadcast = !how.contiguous && !how.is_dst && one_in(m, 3);
  const int is_wild = !how.contiguous && one_in(m, 12);
  int64_t step = 1, low = 0, high = 0;
  for (unsigned d = rank; d-- > 0;) {
    const unsigned k = order[d];
    int64_t stride = step;
    const int is_free = (int)k != how.inner || dim[k] <= 1;
    if (is_loose && is_free && one_in(m, 2)) stride = step * (how.inner < 0 && one_in(m, 3) ? 2 : 1) + below(m, 4);
    if (is_broadcast && is_free && one_in(m, 2)) stride = 0;
    if (is_wild && is_free && !how.is_dst && one_in(m, 3)) stride = between_of(m, 0, 3);
    if (is_wild && is_free && one_in(m, 2)) stride = -stride;
    if (dim[k] <= 1 && one_in(m, 3) && !how.plain) stride = between_of(m, 0, 40);
    view->stride[k] = stride;
    if (dim[k] <= 1) continue;
    const int64_t size = stride < 0 ? -stride : stride, reach = stride * (dim[k] - 1);
    *(reach < 0 ? &low : &high) += reach;
    if (size * dim[k] > step) step = size * dim[k];
  }
  const int is_empty = at_elements(view) == 0;
  const size_t count = is_empty ? 0 : (size_t)(high - low + 1);
  m->bytes[i] = count * at_size(dtype);
  m->blocks[i] = malloc(m->bytes[i] ? m->bytes[i] : 1);
  fill_memory(m, dtype, m->blocks[i], count);
  view->data = m->blocks[i] - (is_empty ? 0 : low * (int64_t)at_size(dtype));
  if (i != AT_SOURCES) call->present |= 1u << i;
  if (i != AT_SOURCES && call->sources <= i) call->sources = i + 1;
}

// Any strides; such that each element has memory of its own; dims in their own order, without gaps.
static const lying ANY = {.inner = -1}, DST = {.inner = -1, .is_dst = 1}, ROWS = {.inner = -1, .contiguous = 1};

static inline void drop_views(made* m) {
  for (unsigned i = 0; i < AT_VIEWS; ++i) free(m->blocks[i]);
}
