// COPY, FILL, IOTA.
#pragma once

#include "walk.h"

static void convert_row(const walk* w, char** at, size_t count) {
  const int64_t to = w->stride[0][w->rank - 1] * (int64_t)w->size[0];
  const int64_t from = w->stride[1][w->rank - 1] * (int64_t)w->size[1];
  const uint8_t into = w->dtype[0], of = w->dtype[1];
  char* dst = at[0];
  const char* src = at[1];
  for (size_t i = 0; i < count; ++i, dst += to, src += from) {
    if (is_float(of) && is_float(into)) {
      if (of == AT_F64 && into == AT_F64) {
        *(double*)dst = *(const double*)src;
      } else {
        store_float(dst, into, load_float(src, of));
      }
    } else if (is_float(of)) {
      const double value = of == AT_F64 ? *(const double*)src : (double)load_float(src, of);
      store_whole(dst, into, into == AT_BOOL ? value != 0 : to_whole(value));
    } else if (into == AT_F64) {
      *(double*)dst = (double)load_whole(src, of);
    } else if (is_float(into)) {
      store_float(dst, into, (float)load_whole(src, of));
    } else {
      store_whole(dst, into, load_whole(src, of));
    }
  }
}

#define COPY_ELEMENTS(TYPE)                                                           \
  do {                                                                                \
    TYPE* dst = (TYPE*)(void*)at[0];                                                  \
    const TYPE* src = (const TYPE*)(const void*)at[1];                                \
    for (size_t i = 0; i < count; ++i) dst[(int64_t)i * to] = src[(int64_t)i * from]; \
  } while (0)

static void copy_row(const at_call* call, const walk* w, char** at, size_t count) {
  (void)call;
  const int64_t to = w->stride[0][w->rank - 1], from = w->stride[1][w->rank - 1];
  if (w->dtype[0] != w->dtype[1]) {
    convert_row(w, at, count);
  } else if (to == 1 && from == 1) {
    memcpy(at[0], at[1], count * w->size[0]);
  } else if (to == 1 && from == 0 && w->size[0] == 4) {
    int32_t value;
    memcpy(&value, at[1], sizeof value);
    for (size_t i = 0; i < count; ++i) ((int32_t*)(void*)at[0])[i] = value;
  } else if (w->size[0] == 8) {
    COPY_ELEMENTS(int64_t);
  } else if (w->size[0] == 4) {
    COPY_ELEMENTS(int32_t);
  } else if (w->size[0] == 2) {
    COPY_ELEMENTS(int16_t);
  } else {
    COPY_ELEMENTS(int8_t);
  }
}

// Rows of an item one after the other: where the next begins is worked out anew only where an outer dim changes.
static void copy_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const spread* s = argument;
  const walk* w = &s->walk;
  if (s->pieces != 1 || w->rank < 2) {
    spread_item(s, item, copy_row);
    return;
  }
  const size_t first = item * s->rows_each, last = first + s->rows_each < s->rows ? first + s->rows_each : s->rows;
  const unsigned outer = w->rank - 2;
  int64_t place = (int64_t)(first % (size_t)w->dim[outer]);
  char* at[WALKERS];
  walk_row(w, first, at);
  for (size_t row = first; row < last; ++row) {
    copy_row(s->call, w, at, s->length);
    if (++place < w->dim[outer]) {
      for (unsigned v = 0; v < w->views; ++v) at[v] += w->stride[v][outer] * (int64_t)w->size[v];
    } else if (row + 1 < last) {
      place = 0;
      walk_row(w, row + 1, at);
    }
  }
}

static int copy(const at_call* call) {
  const at_view* views[] = {&call->dst, &call->src[0]};
  const walk w = walk_of(views, 2);
  spread s = spread_of(call, &w);
  at_pool_run(call->pool, s.items, copy_item, &s);
  return 0;
}

static void fill_row(const at_call* call, const walk* w, char** at, size_t count) {
  const int64_t step = w->stride[0][w->rank - 1] * (int64_t)w->size[0];
  const double value = at_number(call->words[AT_FILL_VALUE]);
  for (size_t i = 0; i < count; ++i) {
    char* dst = at[0] + (int64_t)i * step;
    if (w->dtype[0] == AT_F64) {
      *(double*)dst = value;
    } else if (is_float(w->dtype[0])) {
      store_float(dst, w->dtype[0], (float)value);
    } else {
      store_whole(dst, w->dtype[0], call->words[AT_FILL_WHOLE]);
    }
  }
}

static void fill_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  spread_item(argument, item, fill_row);
}

static int fill(const at_call* call) {
  const at_view* views[] = {&call->dst};
  const walk w = walk_of(views, 1);
  spread s = spread_of(call, &w);
  at_pool_run(call->pool, s.items, fill_item, &s);
  return 0;
}

static int iota(const at_call* call) {
  const at_view* dst = &call->dst;
  const double start = at_number(call->words[AT_IOTA_START]), step = at_number(call->words[AT_IOTA_STEP]);
  for (int64_t i = 0; i < dst->dim[0]; ++i) {
    char* at = dst->data + i * dst->stride[0] * (int64_t)at_size(dst->dtype);
    const double value = start + (double)i * step;
    if (is_float(dst->dtype)) {
      store_float(at, dst->dtype, (float)value);
    } else {
      store_whole(at, dst->dtype, to_whole(value));
    }
  }
  return 0;
}
