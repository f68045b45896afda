// A call of any operation that is cut into tiles, made by a seed; what loaders refuse is not made.
#pragma once

#include "random_images.h"

static inline unsigned any_dims(made* m, unsigned least, unsigned most, int64_t* dim) {
  const unsigned rank = (unsigned)between_of(m, least, most);
  const int64_t longest = rank > 5 ? 3 : rank > 3 ? 7 : rank > 1 ? 40 : 1500;
  for (unsigned d = 0; d < rank; ++d) dim[d] = one_in(m, 5) ? 1 : one_in(m, 60) ? 0 : between_of(m, 1, longest);
  if (rank == 2 && one_in(m, 3)) dim[below(m, 2)] = between_of(m, 1, 700);  // rows of more than a sum takes at once
  return rank;
}

static inline uint8_t any_dtype(made* m) {
  return ONE_OF(m, uint8_t, AT_F32, AT_F32, AT_F32, AT_F64, AT_F16, AT_BF16, AT_I8, AT_U8, AT_I16, AT_I32, AT_I64,
                AT_BOOL);
}

static inline void make_copy(made* m, at_call* call) {
  int64_t dim[AT_DIMS];
  const unsigned rank = any_dims(m, 0, 8, dim);
  const uint8_t dtype = any_dtype(m), other = one_in(m, 2) ? dtype : any_dtype(m);
  make_view(m, call, AT_SOURCES, dtype, rank, dim, DST);
  make_view(m, call, 0, other, rank, dim, ANY);
}

static inline void make_fill(made* m, at_call* call) {
  int64_t dim[AT_DIMS];
  const unsigned rank = any_dims(m, 0, 8, dim);
  make_view(m, call, AT_SOURCES, any_dtype(m), rank, dim, DST);
  m->words[AT_FILL_VALUE] = word_of(number(m));
  m->words[AT_FILL_WHOLE] = below(m, 100);
  call->word_count = 2;
}

static inline void make_iota(made* m, at_call* call) {
  int64_t dim[AT_DIMS];
  any_dims(m, 1, 1, dim);
  make_view(m, call, AT_SOURCES, any_dtype(m), 1, dim, DST);
  m->words[AT_IOTA_START] =
      word_of(one_in(m, 2) ? (double)between_of(m, -9, 99) : ONE_OF(m, double, 0.25, 0.0, 1e17, 0.1));
  m->words[AT_IOTA_STEP] =
      word_of(one_in(m, 2) ? (double)between_of(m, -3, 3) : ONE_OF(m, double, 0.5, 1.0, 0.1, -0.125));
  call->word_count = 2;
}

static inline int64_t step_word(uint64_t code, uint64_t a, uint64_t b, uint64_t c) {
  return (int64_t)(code << 8 * AT_STEP_AT_CODE | b << 8 * AT_STEP_AT_B | c << 8 * AT_STEP_AT_C |
                   (a & 0xffffffffu) << 8 * AT_STEP_AT_A);
}

static inline uint64_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Two tensors of int8, dequantised, added or multiplied, quantised.
static inline void make_pair(made* m, at_call* call, unsigned rank, const int64_t* dim) {
  make_view(m, call, AT_SOURCES, AT_I8, rank, dim, DST);
  for (unsigned i = 0; i < 2; ++i) make_view(m, call, i, AT_I8, rank, dim, one_in(m, 3) ? ANY : DST);
  unsigned n = 0;
  for (unsigned i = 0; i < 2; ++i) {
    m->words[n++] = step_word(AT_STEP_FLOAT, float_bits((float)(number(m) + 1.5)), 0, 0);
    m->words[n++] = step_word(AT_STEP_FLOAT, float_bits((float)between_of(m, -128, 127)), 0, 0);
    m->words[n] = step_word(AT_STEP_DEQUANTIZE, i, n, n + 1);
    ++n;
  }
  m->words[n++] = step_word(one_in(m, 2) ? AT_STEP_ADD : AT_STEP_MUL, 4, 7, 0);
  if (one_in(m, 2)) {
    m->words[n] = step_word(AT_STEP_RELU, n + 1, 0, 0);
    ++n;
  }
  const unsigned value = 2 + n - 1;
  m->words[n++] = step_word(AT_STEP_FLOAT, float_bits(0.05f), 0, 0);
  m->words[n++] = step_word(AT_STEP_FLOAT, float_bits((float)between_of(m, -128, 127)), 0, 0);
  m->words[n++] = step_word(AT_STEP_QUANTIZE, value, value + 1, value + 2);
  call->word_count = n;
}

static inline void make_chain(made* m, at_call* call) {
  int64_t dim[AT_DIMS];
  const unsigned rank = any_dims(m, 0, 8, dim), sources = (unsigned)below(m, one_in(m, 4) ? 9 : 4);
  if (one_in(m, 4)) {
    make_pair(m, call, rank, dim);
    return;
  }
  int floats[AT_SOURCES + AT_STEPS];
  for (unsigned i = 0; i < sources; ++i) {
    uint8_t dtype = any_dtype(m);
    if (dtype == AT_F64) dtype = AT_F32;
    make_view(m, call, i, dtype, rank, dim, ANY);
    floats[i] = dtype == AT_F32 || dtype == AT_F16 || dtype == AT_BF16;
  }
  const unsigned count = (unsigned)between_of(m, 1, one_in(m, 5) ? AT_STEPS : 6);
  for (unsigned n = 0; n < count;) {
    const unsigned values = sources + n;
    const uint8_t code = (uint8_t)below(m, AT_STEP_COUNT);
    const at_step_spec* spec = at_step_spec_of(code);
    uint64_t operands[3] = {0, 0, 0};
    int same = -1, fits = values > 0 || !spec->operands[0];
    for (int k = 0; k < 3 && spec->operands[k] && fits; ++k) {
      operands[k] = (uint64_t)below(m, values);
      const int is_one = floats[operands[k]];
      fits = spec->operands[k] == 's' ? same < 0 || same == is_one : is_one == (spec->operands[k] == 'f');
      if (spec->operands[k] == 's') same = is_one;
    }
    if (!fits && !one_in(m, 4)) continue;
    if (!fits || code == AT_STEP_FLOAT || code == AT_STEP_INT) {
      const int is_float = one_in(m, 2);
      m->words[n] = is_float ? step_word(AT_STEP_FLOAT, float_bits(any_float(m)), 0, 0)
                             : step_word(AT_STEP_INT, (uint64_t)(below(m, 9) - 4), 0, 0);
      floats[sources + n++] = is_float;
      continue;
    }
    m->words[n] = step_word(code, operands[0], operands[1], operands[2]);
    floats[sources + n++] = at_step_is_float(code, floats[operands[0]], floats[operands[1]]);
  }
  const uint8_t dtype = floats[sources + count - 1] ? ONE_OF(m, uint8_t, AT_F32, AT_F32, AT_F16, AT_BF16)
                                                    : ONE_OF(m, uint8_t, AT_I64, AT_I32, AT_I16, AT_I8, AT_U8, AT_BOOL);
  make_view(m, call, AT_SOURCES, dtype, rank, dim, DST);
  call->word_count = count;
}

static inline void make_reduce(made* m, at_call* call) {
  int64_t dim[AT_DIMS], of[AT_DIMS];
  const unsigned rank = any_dims(m, 0, 6, dim);
  const int64_t kind = below(m, AT_REDUCE_COUNT);
  const uint8_t from = kind == AT_REDUCE_MEAN || kind == AT_REDUCE_VAR ? AT_F32
                       : kind == AT_REDUCE_SUM && one_in(m, 3)
                           ? AT_I8
                           : ONE_OF(m, uint8_t, AT_F32, AT_F32, AT_I64, AT_I32, AT_BOOL);
  const int places = kind == AT_REDUCE_ARGMAX || kind == AT_REDUCE_ARGMIN;
  int64_t mask = (int64_t)(next(m) & ((1u << rank) - 1));
  if (places || kind == AT_REDUCE_MEDIAN) {
    if (!rank) {
      make_reduce(m, call);
      return;
    }
    mask = 1ll << below(m, rank);
  }
  for (unsigned d = 0; d < rank; ++d) {
    if (kind == AT_REDUCE_MEDIAN && dim[d] == 0) dim[d] = 2;
    of[d] = mask >> d & 1 ? 1 : dim[d];
  }
  uint8_t to = from;
  if (kind == AT_REDUCE_ALL || kind == AT_REDUCE_ANY) to = AT_BOOL;
  if (places || ((kind == AT_REDUCE_SUM || kind == AT_REDUCE_PROD) && from != AT_F32)) to = AT_I64;
  make_view(m, call, 0, from, rank, dim, ANY);
  make_view(m, call, AT_SOURCES, to, rank, of, DST);
  m->words[AT_REDUCE_KIND] = kind;
  m->words[AT_REDUCE_DIMS] = mask;
  m->words[AT_REDUCE_CORRECTION] = word_of(ONE_OF(m, double, 0.0, 1.0));
  call->word_count = 3;
}

static inline void make_softmax(made* m, at_call* call) {
  int64_t dim[AT_DIMS];
  const unsigned rank = any_dims(m, 1, 6, dim);
  make_view(m, call, 0, AT_F32, rank, dim, ANY);
  make_view(m, call, AT_SOURCES, AT_F32, rank, dim, DST);
  m->words[AT_SOFTMAX_AXIS] = below(m, rank);
  m->words[AT_SOFTMAX_LOG] = below(m, 2);
  call->word_count = 2;
}

static inline void make_cumsum(made* m, at_call* call) {
  int64_t dim[AT_DIMS];
  const unsigned rank = any_dims(m, 1, 6, dim);
  const uint8_t from = ONE_OF(m, uint8_t, AT_F32, AT_I64, AT_I32, AT_BOOL);
  make_view(m, call, 0, from, rank, dim, ANY);
  make_view(m, call, AT_SOURCES, from == AT_F32 || one_in(m, 3) ? AT_F32 : AT_I64, rank, dim, DST);
  m->words[AT_CUMSUM_AXIS] = below(m, rank);
  call->word_count = 1;
}

static inline void make_norm(made* m, at_call* call) {
  int64_t dim[AT_DIMS];
  const unsigned rank = any_dims(m, 1, 6, dim), dims = (unsigned)between_of(m, 1, rank);
  make_view(m, call, 0, AT_F32, rank, dim, ANY);
  make_view(m, call, AT_SOURCES, AT_F32, rank, dim, DST);
  for (unsigned i = 1; i < 3; ++i) {
    if (one_in(m, 2)) make_view(m, call, i, AT_F32, dims, dim + rank - dims, ROWS);
  }
  call->sources = 3;
  m->words[AT_NORM_KIND] = below(m, AT_NORM_COUNT);
  m->words[AT_NORM_DIMS] = dims;
  m->words[AT_NORM_EPS] = word_of(1e-5);
  call->word_count = 3;
}

static inline void make_bmm(made* m, at_call* call) {
  int64_t dim[AT_DIMS], left[AT_DIMS], right[AT_DIMS];
  const unsigned batches = (unsigned)below(m, 4), rank = batches + 2;
  for (unsigned d = 0; d < batches; ++d) dim[d] = left[d] = right[d] = between_of(m, 1, 3);
  dim[batches] = left[batches] = one_in(m, 30) ? 300 : between_of(m, 1, 40);
  dim[batches + 1] = right[batches + 1] = between_of(m, 1, 70);
  left[batches + 1] = right[batches] = one_in(m, 6)    ? between_of(m, 300, 700)
                                       : one_in(m, 20) ? 0
                                                       : between_of(m, 1, 60);
  make_view(m, call, AT_SOURCES, AT_F32, rank, dim, (lying){.inner = (int)rank - 1, .is_dst = 1});
  make_view(m, call, 0, AT_F32, rank, left, ANY);
  make_view(m, call, 1, AT_F32, rank, right, ANY);
  m->words[AT_BMM_SCALE] = word_of(ONE_OF(m, double, 1.0, 0.125, 0.3));
  call->word_count = 1;
}

static inline void make_attention(made* m, at_call* call) {
  const int64_t batch = between_of(m, 1, 3), heads = between_of(m, 1, 4),
                keys = one_in(m, 5) ? between_of(m, 300, 400) : between_of(m, 1, 50);
  const int64_t length = between_of(m, 1, 40), size = between_of(m, 1, 40), values = between_of(m, 1, 40);
  const int64_t q[] = {batch, heads, length, size}, k[] = {batch, heads, keys, size},
                v[] = {batch, heads, keys, values};
  const int64_t dst[] = {batch, heads, length, values}, mask[] = {batch, heads, length, keys};
  make_view(m, call, AT_SOURCES, AT_F32, 4, dst, (lying){.inner = 3, .is_dst = 1});
  make_view(m, call, 0, AT_F32, 4, q, (lying){.inner = 3});
  make_view(m, call, 1, AT_F32, 4, k, ANY);
  make_view(m, call, 2, AT_F32, 4, v, ANY);
  if (one_in(m, 3)) make_view(m, call, 3, AT_F32, 4, mask, ANY);
  call->sources = 4;
  m->words[AT_ATTENTION_CAUSAL] = one_in(m, 3);
  m->words[AT_ATTENTION_SCALE] = word_of(ONE_OF(m, double, 0.125, 0.3, -1.0));
  call->word_count = 2;
}

// Rows of a table, and numbers of some of them; one in many is out of bounds.
static inline void make_rows(made* m, at_call* call, uint16_t op) {
  int64_t table[AT_DIMS], index[AT_DIMS], rows[AT_DIMS];
  const unsigned rank = (unsigned)between_of(m, 1, 4), indices = (unsigned)below(m, 4);
  for (unsigned d = 0; d < rank; ++d) table[d] = between_of(m, 1, d ? 9 : 40);
  for (unsigned d = 0; d < indices; ++d)
    rows[d] = index[d] = one_in(m, 30) ? 0 : between_of(m, 1, indices > 1 ? 9 : 60);
  const int is_bytes = op == AT_OP_GATHER && one_in(m, 3);
  const unsigned width = is_bytes ? 1 : rank;
  if (is_bytes) table[0] = 256;
  for (unsigned d = 1; d < width; ++d) rows[indices + d - 1] = table[d];
  const uint8_t dtype = op == AT_OP_SCATTER ? ONE_OF(m, uint8_t, AT_F32, AT_I64, AT_I32)
                        : is_bytes          ? AT_I8
                                            : any_dtype(m);
  const uint8_t of = is_bytes             ? AT_U8
                     : op == AT_OP_GATHER ? ONE_OF(m, uint8_t, AT_I64, AT_I32, AT_U8)
                                          : ONE_OF(m, uint8_t, AT_I64, AT_I32);
  make_view(m, call, 1, of, indices, index, ANY);
  const size_t size = at_size(of), count = m->bytes[1] / size;
  for (size_t i = 0; i < count; ++i) {
    const int64_t number = one_in(m, 3000) ? (of == AT_U8 ? 255 : -1) : below(m, table[0]);
    memcpy(m->blocks[1] + i * size, &number, size);
  }
  if (op == AT_OP_GATHER) {
    make_view(m, call, 0, dtype, width, table, ROWS);
    make_view(m, call, AT_SOURCES, dtype, indices + width - 1, rows,
              (lying){.inner = -1, .is_dst = 1, .contiguous = 1});
    return;
  }
  make_view(m, call, 0, dtype, rank, table, ANY);
  make_view(m, call, 2, dtype, indices + rank - 1, rows, ROWS);
  make_view(m, call, AT_SOURCES, dtype, rank, table, (lying){.inner = -1, .is_dst = 1, .contiguous = 1});
  m->words[AT_SCATTER_KIND] = below(m, AT_SCATTER_COUNT);
  call->word_count = 1;
}

static inline void make_call(made* m, uint16_t op, at_call* call) {
  *call = (at_call){.words = m->words};
  if (op == AT_OP_COPY) make_copy(m, call);
  if (op == AT_OP_FILL) make_fill(m, call);
  if (op == AT_OP_IOTA) make_iota(m, call);
  if (op == AT_OP_EW) make_chain(m, call);
  if (op == AT_OP_REDUCE) make_reduce(m, call);
  if (op == AT_OP_SOFTMAX) make_softmax(m, call);
  if (op == AT_OP_CUMSUM) make_cumsum(m, call);
  if (op == AT_OP_NORM) make_norm(m, call);
  if (op == AT_OP_BMM) make_bmm(m, call);
  if (op == AT_OP_ATTENTION) make_attention(m, call);
  if (op == AT_OP_GATHER || op == AT_OP_SCATTER) make_rows(m, call, op);
  if (op == AT_OP_DWCONV2D || op == AT_OP_QDWCONV2D) make_depthwise(m, call, op);
  if (op == AT_OP_POOL2D) make_pool(m, call);
  if (op == AT_OP_RESIZE2D) make_resize(m, call);
  if (op == AT_OP_SAMPLE2D) make_sample(m, call);
}
