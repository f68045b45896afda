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

// Rows of an item one after the other.
static void copy_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const spread* s = argument;
  const walk* w = &s->walk;
  if (s->pieces != 1 || w->rank < 2) {
    spread_item(s, item, copy_row);
    return;
  }
  const size_t first = item * s->rows_each, last = first + s->rows_each < s->rows ? first + s->rows_each : s->rows;
  row_of_walk row = walk_to(w, first);
  for (size_t i = first; i < last; ++i, walk_on(w, &row)) copy_row(s->call, w, row.at, s->length);
}

// Elements of 4 bytes that are neighbours along one dim before and along another afterwards: tiles of both.
enum { TILE_OF = 16, LEAST_TILES = 8 };

typedef struct {
  walk walk;
  unsigned of;  // the dim of neighbours before
  size_t blocks;
} turn;

// Returns the dim along which elements are neighbours in the source; the rank where a copy is none of these.
INLINE unsigned turned_dim(const walk* w) {
  const unsigned last = w->rank - 1;
  const int suits = w->dtype[0] == w->dtype[1] && w->size[0] == 4 && w->stride[0][last] == 1 && w->stride[1][last] > 1;
  for (unsigned d = 0; d < last && suits; ++d) {
    if (w->stride[1][d] == 1 && w->dim[d] >= LEAST_TILES && w->dim[last] >= LEAST_TILES) return d;
  }
  return w->rank;
}

// One tile: rows of `in`, `from` apart, become columns of `out`, whose rows are `to` apart. No number is looked at.
INLINE void turn_tile(const float* in, int64_t from, size_t rows, float* out, int64_t to, size_t columns) {
  vf x[VL];
  for (size_t i = 0; i < VL; ++i) {
    x[i] = vset(0.0f);
    if (i >= rows) continue;
    const float* at = in + (int64_t)i * from;
    x[i] = columns == VL ? vload(at) : vload_part(at, columns);
  }
  vtranspose(x);
  for (size_t i = 0; i < columns; ++i) {
    float* at = out + (int64_t)i * to;
    rows == VL ? vstore(at, x[i]) : vstore_part(at, x[i], rows);
  }
}

static void turn_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const turn* t = argument;
  const walk* w = &t->walk;
  const unsigned last = w->rank - 1;
  const int64_t first = (int64_t)(item % t->blocks) * TILE_OF, to = w->stride[0][t->of], from = w->stride[1][last];
  const int64_t most = w->dim[t->of] - first < TILE_OF ? w->dim[t->of] - first : TILE_OF;
  int64_t dst = first * to, src = first;
  size_t rest = item / t->blocks;
  for (unsigned d = last; d-- > 0;) {
    if (d == t->of) continue;
    const int64_t index = (int64_t)(rest % (size_t)w->dim[d]);
    rest /= (size_t)w->dim[d];
    dst += index * w->stride[0][d];
    src += index * w->stride[1][d];
  }
  float* out = (float*)(void*)w->data[0] + dst;
  const float* in = (const float*)(const void*)w->data[1] + src;
  for (int64_t i = 0; i < w->dim[last]; i += VL) {
    const int64_t rows = w->dim[last] - i < VL ? w->dim[last] - i : VL;
    for (int64_t k = 0; k < most; k += VL) {
      const int64_t columns = most - k < VL ? most - k : VL;
      turn_tile(in + k + i * from, from, (size_t)rows, out + k * to + i, to, (size_t)columns);
    }
  }
}

static void copy_turned(const at_call* call, const walk* w, unsigned of) {
  turn t = {.walk = *w, .of = of, .blocks = (size_t)(w->dim[of] + TILE_OF - 1) / TILE_OF};
  const size_t rows = walk_rows(w) / (size_t)w->dim[of];
  at_pool_run(call->pool, rows * t.blocks, turn_item, &t);
}

// Elements of 4 bytes, each so many times, one behind the other: a walk whose last dim is left out.
static void again_row(const at_call* call, const walk* w, char** at, size_t count) {
  (void)call;
  const int64_t times = w->stride[0][w->rank - 1], from = w->stride[1][w->rank - 1];
  int32_t* out = (int32_t*)(void*)at[0];
  const int32_t* in = (const int32_t*)(const void*)at[1];
  for (size_t i = 0; i < count; ++i, out += times) {
    const int32_t value = in[(int64_t)i * from];
    for (int64_t k = 0; k < times; ++k) out[k] = value;
  }
}

static void again_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  spread_item(argument, item, again_row);
}

INLINE int is_again(const walk* w) {
  const unsigned last = w->rank - 1;
  const int same = w->rank > 1 && w->dtype[0] == w->dtype[1] && w->size[0] == 4;
  return same && w->stride[0][last] == 1 && w->stride[1][last] == 0 && w->stride[0][last - 1] == w->dim[last];
}

static int copy(const at_call* call) {
  const at_view* views[] = {&call->dst, &call->src[0]};
  const walk w = walk_of(views, 2);
  const unsigned of = turned_dim(&w);
  if (of < w.rank && at_elements(&call->dst) > 0) {
    copy_turned(call, &w, of);
    return 0;
  }
  if (is_again(&w)) {
    walk inner = w;
    inner.rank -= 1;
    spread s = spread_of(call, &inner);
    at_pool_run(call->pool, s.items, again_item, &s);
    return 0;
  }
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
