// Walk: a way through several strided views of one shape at once; dims that lie behind each other in all become one.
#pragma once

#include <stdlib.h>

#include "../internal.h"
#include "vec.h"

enum { WALKERS = AT_SOURCES + 1 };

typedef struct {
  unsigned views, rank;
  int64_t dim[AT_DIMS];
  int64_t stride[WALKERS][AT_DIMS];
  char* data[WALKERS];
  size_t size[WALKERS];  // bytes of an element
  uint8_t dtype[WALKERS];
} walk;

// The first view is the one that is written; the dim that is innermost in it comes last.
INLINE walk walk_of(const at_view* const* views, unsigned count) {
  walk w = {.views = count};
  const at_view* first = views[0];
  unsigned order[AT_DIMS], rank = 0;
  for (unsigned i = 0; i < first->rank; ++i) {
    if (first->dim[i] == 1) continue;
    unsigned at = rank++;
    while (at > 0 && llabs(first->stride[order[at - 1]]) < llabs(first->stride[i])) {
      order[at] = order[at - 1];
      --at;
    }
    order[at] = i;
  }
  for (unsigned v = 0; v < count; ++v) {
    w.data[v] = views[v]->data;
    w.dtype[v] = views[v]->dtype;
    w.size[v] = at_size(views[v]->dtype);
  }
  for (unsigned i = 0; i < rank; ++i) {
    const unsigned d = order[i];
    int merge = w.rank > 0;
    for (unsigned v = 0; v < count && merge; ++v) {
      merge = w.stride[v][w.rank - 1] == views[v]->stride[d] * first->dim[d];
    }
    if (merge) {
      w.dim[w.rank - 1] *= first->dim[d];
    } else {
      w.dim[w.rank++] = first->dim[d];
    }
    for (unsigned v = 0; v < count; ++v) w.stride[v][w.rank - 1] = views[v]->stride[d];
  }
  if (w.rank == 0) {
    w.rank = 1;
    w.dim[0] = first->rank && at_elements(first) == 0 ? 0 : 1;
    for (unsigned v = 0; v < count; ++v) w.stride[v][0] = 1;
  }
  return w;
}

// Number of rows: all but the innermost dim.
INLINE size_t walk_rows(const walk* w) {
  size_t rows = 1;
  for (unsigned i = 0; i + 1 < w->rank; ++i) rows *= (size_t)w->dim[i];
  return rows;
}

// A row's number along each dim but the innermost, and where it begins in each view.
INLINE void walk_index(const walk* w, size_t row, int64_t* index, char** at) {
  for (unsigned i = w->rank - 1; i-- > 0;) {
    index[i] = (int64_t)(row % (size_t)w->dim[i]);
    row /= (size_t)w->dim[i];
  }
  for (unsigned v = 0; v < w->views; ++v) {
    int64_t offset = 0;
    for (unsigned i = 0; i + 1 < w->rank; ++i) offset += index[i] * w->stride[v][i];
    at[v] = w->data[v] + offset * (int64_t)w->size[v];
  }
}

INLINE void walk_row(const walk* w, size_t row, char** at) {
  int64_t index[AT_DIMS];
  walk_index(w, row, index, at);
}

// A row from which others follow.
typedef struct {
  int64_t index[AT_DIMS];
  char* at[WALKERS];
} row_of_walk;

INLINE row_of_walk walk_to(const walk* w, size_t row) {
  row_of_walk found;
  walk_index(w, row, found.index, found.at);
  return found;
}

// Goes to the next row; from the last one to the first.
INLINE void walk_on(const walk* w, row_of_walk* row) {
  for (unsigned i = w->rank - 1; i-- > 0;) {
    if (++row->index[i] < w->dim[i]) {
      for (unsigned v = 0; v < w->views; ++v) row->at[v] += w->stride[v][i] * (int64_t)w->size[v];
      return;
    }
    for (unsigned v = 0; v < w->views; ++v) row->at[v] -= (w->dim[i] - 1) * w->stride[v][i] * (int64_t)w->size[v];
    row->index[i] = 0;
  }
}

// Whether rows lie one behind the other in a view, and whether all are the same one.
INLINE int walk_is_dense(const walk* w, unsigned v) {
  int64_t step = 1;
  for (unsigned i = w->rank; i-- > 0; step *= w->dim[i]) {
    if (w->stride[v][i] != step) return 0;
  }
  return 1;
}

INLINE int walk_is_fixed(const walk* w, unsigned v) {
  for (unsigned i = 0; i + 1 < w->rank; ++i) {
    if (w->stride[v][i]) return 0;
  }
  return 1;
}

// How many items for threads: a piece of the rows each, or of the one row.
typedef struct {
  const at_call* call;
  walk walk;
  size_t rows, rows_each, length, length_each, pieces, items;
} spread;

enum { WORTH_AN_ITEM = 1 << 14 };  // elements

INLINE spread spread_of(const at_call* call, const walk* w) {
  spread s = {.call = call, .walk = *w, .rows = walk_rows(w), .length = (size_t)w->dim[w->rank - 1]};
  s.length_each = s.length;
  s.rows_each = s.rows;
  const size_t threads = at_pool_threads(call->pool);
  if (threads > 1 && s.length && s.rows) {
    const size_t items = (s.rows * s.length + threads * WORTH_AN_ITEM - 1) / (threads * WORTH_AN_ITEM) * threads;
    s.rows_each = (s.rows + items - 1) / items;
    if (s.length > 2 * WORTH_AN_ITEM) s.length_each = WORTH_AN_ITEM;
  }
  s.pieces = s.length_each ? (s.length + s.length_each - 1) / s.length_each : 0;
  s.items = s.rows_each ? (s.rows + s.rows_each - 1) / s.rows_each * s.pieces : 0;
  return s;
}

typedef void (*row_body)(const at_call* call, const walk* w, char** at, size_t count);

// Calls `body` for each row, or piece of a row, of an item.
INLINE void spread_item(const spread* s, size_t item, row_body body) {
  const size_t from = item / s->pieces * s->rows_each, begin = item % s->pieces * s->length_each;
  const size_t count = s->length - begin < s->length_each ? s->length - begin : s->length_each;
  for (size_t row = from; row < from + s->rows_each && row < s->rows; ++row) {
    char* at[WALKERS];
    walk_row(&s->walk, row, at);
    for (unsigned v = 0; v < s->walk.views; ++v) {
      at[v] += (int64_t)begin * s->walk.stride[v][s->walk.rank - 1] * (int64_t)s->walk.size[v];
    }
    body(s->call, &s->walk, at, count);
  }
}

// Elements as what steps compute with.
INLINE float half_to_float(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
  union {
    uint32_t bits;
    float value;
  } both;
  if (exponent == 31) {
    both.bits = sign | 0x7f800000u | fraction << 13;
  } else if (exponent) {
    both.bits = sign | (exponent + 112u) << 23 | fraction << 13;
  } else {
    both.value = (float)fraction * 5.9604644775390625e-8f;
    both.bits |= sign;
  }
  return both.value;
}

INLINE uint16_t float_to_half(float value) {
  union {
    float value;
    uint32_t bits;
  } both = {value};
  const uint32_t sign = both.bits >> 16 & 0x8000u, magnitude = both.bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
  }
  both.bits = magnitude;
  both.value += 0.5f;  // the sum's last bit is a subnormal half's
  return (uint16_t)(sign | (both.bits - 0x3f000000u));
}

INLINE float load_float(const char* at, uint8_t dtype) {
  if (dtype == AT_F32) return *(const float*)at;
  if (dtype == AT_F64) return (float)*(const double*)at;
  if (dtype == AT_F16) return half_to_float(*(const uint16_t*)at);
  union {
    uint32_t bits;
    float value;
  } both = {(uint32_t)*(const uint16_t*)at << 16};
  return both.value;
}

INLINE void store_float(char* at, uint8_t dtype, float value) {
  if (dtype == AT_F32) {
    *(float*)at = value;
  } else if (dtype == AT_F64) {
    *(double*)at = value;
  } else if (dtype == AT_F16) {
    *(uint16_t*)at = float_to_half(value);
  } else {
    union {
      float value;
      uint32_t bits;
    } both = {value};
    const uint32_t odd = both.bits >> 16 & 1u;
    *(uint16_t*)at = value != value ? 0x7fc0u : (uint16_t)((both.bits + 0x7fffu + odd) >> 16);
  }
}

INLINE int64_t load_whole(const char* at, uint8_t dtype) {
  switch (dtype) {
    case AT_I64:
      return *(const int64_t*)at;
    case AT_I32:
      return *(const int32_t*)at;
    case AT_I16:
      return *(const int16_t*)at;
    case AT_I8:
      return *(const int8_t*)at;
    case AT_U8:
      return *(const uint8_t*)at;
    default:
      return *(const uint8_t*)at != 0;
  }
}

// `count` of them, `step` bytes apart.
INLINE void load_wholes(int64_t* to, const char* from, uint8_t dtype, int64_t step, size_t count) {
// Of those that lie densely compilers take several at once.
#define EACH_OF(LABEL, DTYPE, SIZE)                                                         \
  LABEL:                                                                                    \
  if (step == SIZE) {                                                                       \
    for (size_t i = 0; i < count; ++i) to[i] = load_whole(from + i * SIZE, DTYPE);          \
  } else {                                                                                  \
    for (size_t i = 0; i < count; ++i) to[i] = load_whole(from + (int64_t)i * step, DTYPE); \
  }                                                                                         \
  break;
  switch (dtype) {
    EACH_OF(case AT_I64, AT_I64, 8)
    EACH_OF(case AT_I32, AT_I32, 4)
    EACH_OF(case AT_I16, AT_I16, 2)
    EACH_OF(case AT_I8, AT_I8, 1)
    EACH_OF(case AT_U8, AT_U8, 1)
    EACH_OF(default, AT_BOOL, 1)
  }
#undef EACH_OF
}

INLINE void store_whole(char* at, uint8_t dtype, int64_t value) {
  switch (dtype) {
    case AT_I64:
      *(int64_t*)at = value;
      break;
    case AT_I32:
      *(int32_t*)at = (int32_t)value;
      break;
    case AT_I16:
      *(int16_t*)at = (int16_t)value;
      break;
    case AT_I8:
      *(int8_t*)at = (int8_t)value;
      break;
    case AT_U8:
      *(uint8_t*)at = (uint8_t)value;
      break;
    default:
      *(uint8_t*)at = value != 0;
      break;
  }
}

INLINE int is_float(uint8_t dtype) { return dtype == AT_F32 || dtype == AT_F64 || dtype == AT_F16 || dtype == AT_BF16; }

// Toward zero; what no int64 holds becomes the smallest one, as x86 has it.
INLINE int64_t to_whole(double value) {
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? (int64_t)value : INT64_MIN;
}
