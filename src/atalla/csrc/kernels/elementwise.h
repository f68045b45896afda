// EW: a chain of steps over blocks of elements that stay in the first-level cache.
//
// A value of the chain is a row of floats or of int64s; sources that lie densely are read where they are.
#pragma once

#include <stdatomic.h>

#include "narrow.h"
#include "walk.h"

enum { MOST_VALUES = AT_SOURCES + AT_STEPS, BLOCK = 128 };

typedef struct {
  uint8_t code, a, b, c;  // numbers of values
  int32_t constant;
  uint8_t as_float, from_float;  // of the result, and of what it is made of
} ew_step;

typedef struct {
  spread spread;  // first, so that its pointer is the job's
  ew_step steps[AT_STEPS];
  unsigned count, sources;
  uint8_t narrow[AT_SOURCES];  // whether a source of int8 is only dequantised: it is read as floats
  uint8_t is_narrow;           // whether what is stored as int8 stays in floats until then
  atomic_int status;
} ew_job;

typedef union {
  float floats[BLOCK];
  int64_t wholes[BLOCK];
} ew_value;

INLINE ew_step read_step(int64_t word) {
  const at_step s = at_step_of(word);
  return (ew_step){.code = s.code, .a = (uint8_t)s.a, .b = s.b, .c = s.c, .constant = (int32_t)s.a};
}

#define EACH_VECTOR(EXPRESSION)              \
  do {                                       \
    for (size_t i = 0; i < count; i += VL) { \
      const vf x = vload(a + i);             \
      vstore(out + i, (EXPRESSION));         \
    }                                        \
  } while (0)

#define EACH_PAIR(EXPRESSION)                      \
  do {                                             \
    for (size_t i = 0; i < count; i += VL) {       \
      const vf x = vload(a + i), y = vload(b + i); \
      vstore(out + i, (EXPRESSION));               \
    }                                              \
  } while (0)

#define EACH_FLOAT(EXPRESSION)           \
  do {                                   \
    for (size_t i = 0; i < count; ++i) { \
      const float x = a[i];              \
      out[i] = (EXPRESSION);             \
    }                                    \
  } while (0)

// Rounded down, by what is left of the division: the quotient of floats may be rounded up to a whole number.
INLINE float floor_quotient(float a, float b) {
  if (b == 0) return a / b;
  const float rest = fmodf(a, b);
  float quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return copysignf(0.0f, a / b);
  const float down = floorf(quotient);
  return quotient - down > 0.5f ? down + 1 : down;
}

// Floats of floats; rows are read and written up to the next multiple of VL.
static void step_floats(const ew_step* s, float* out, const float* a, const float* b, size_t count) {
  switch (s->code) {
    case AT_STEP_ADD:
      EACH_PAIR(x + y);
      break;
    case AT_STEP_SUB:
      EACH_PAIR(x - y);
      break;
    case AT_STEP_MUL:
      EACH_PAIR(x * y);
      break;
    case AT_STEP_DIV:
      EACH_PAIR(x / y);
      break;
    case AT_STEP_MIN:
      EACH_PAIR(vselect(y != y, y, vmin(x, y)));
      break;
    case AT_STEP_MAX:
      EACH_PAIR(vselect(y != y, y, vmax(x, y)));
      break;
    case AT_STEP_POW:
      for (size_t i = 0; i < count; ++i) out[i] = powf(a[i], b[i]);
      break;
    case AT_STEP_NEG:
      EACH_VECTOR(-x);
      break;
    case AT_STEP_ABS:
      EACH_VECTOR(vabs(x));
      break;
    case AT_STEP_SQRT:
      EACH_FLOAT(sqrtf(x));
      break;
    case AT_STEP_RSQRT:
      EACH_FLOAT(1.0f / sqrtf(x));
      break;
    case AT_STEP_RECIPROCAL:
      EACH_VECTOR(vset(1.0f) / x);
      break;
    case AT_STEP_EXP:
      EACH_VECTOR(vexp(x));
      break;
    case AT_STEP_LOG:
      EACH_VECTOR(vlog(x));
      break;
    case AT_STEP_LOG2:
      EACH_FLOAT(log2f(x));
      break;
    case AT_STEP_LOG10:
      EACH_FLOAT(log10f(x));
      break;
    case AT_STEP_LOG1P:
      EACH_FLOAT(log1pf(x));
      break;
    case AT_STEP_EXPM1:
      EACH_FLOAT(expm1f(x));
      break;
    case AT_STEP_TANH:
      EACH_VECTOR(vtanh(x));
      break;
    case AT_STEP_ERF:
      EACH_VECTOR(verf(x));
      break;
    case AT_STEP_SIN:
      EACH_FLOAT(sinf(x));
      break;
    case AT_STEP_COS:
      EACH_FLOAT(cosf(x));
      break;
    case AT_STEP_SIGMOID:
      EACH_VECTOR(vsigmoid(x));
      break;
    case AT_STEP_FLOOR:
      EACH_FLOAT(floorf(x));
      break;
    case AT_STEP_CEIL:
      EACH_FLOAT(ceilf(x));
      break;
    case AT_STEP_ROUND:
      EACH_FLOAT(nearbyintf(x));
      break;
    case AT_STEP_TRUNC:
      EACH_FLOAT(truncf(x));
      break;
    case AT_STEP_RELU:
      EACH_VECTOR(vrelu(x));
      break;
    case AT_STEP_HARDSWISH:
      EACH_VECTOR(vhardswish(x));
      break;
    case AT_STEP_HARDSIGMOID:
      EACH_VECTOR(vhardsigmoid(x));
      break;
    case AT_STEP_SILU:
      EACH_VECTOR(x * vsigmoid(x));
      break;
    case AT_STEP_GELU:
      EACH_VECTOR(vgelu(x));
      break;
    case AT_STEP_GELU_TANH:
      EACH_VECTOR(vgelu_tanh(x));
      break;
    case AT_STEP_SIGN:
      EACH_FLOAT(x != x ? x : (float)((x > 0) - (x < 0)));
      break;
    case AT_STEP_FLOOR_DIV:
      for (size_t i = 0; i < count; ++i) out[i] = floor_quotient(a[i], b[i]);
      break;
    default: {  // REMAINDER, with the sign of the divisor
      for (size_t i = 0; i < count; ++i) {
        const float rest = fmodf(a[i], b[i]);
        out[i] = rest != 0 && (rest < 0) != (b[i] < 0) ? rest + b[i] : rest;
      }
    }
  }
}

// Truths of floats.
static void step_compare(const ew_step* s, int64_t* out, const float* a, const float* b, size_t count) {
#define COMPARE(OPERATOR)                                           \
  do {                                                              \
    for (size_t i = 0; i < count; ++i) out[i] = a[i] OPERATOR b[i]; \
  } while (0)
  switch (s->code) {
    case AT_STEP_EQ:
      COMPARE(==);
      break;
    case AT_STEP_NE:
      COMPARE(!=);
      break;
    case AT_STEP_LT:
      COMPARE(<);
      break;
    case AT_STEP_LE:
      COMPARE(<=);
      break;
    case AT_STEP_GT:
      COMPARE(>);
      break;
    case AT_STEP_GE:
      COMPARE(>=);
      break;
    case AT_STEP_IS_NAN:
      for (size_t i = 0; i < count; ++i) out[i] = a[i] != a[i];
      break;
    default:
      for (size_t i = 0; i < count; ++i) out[i] = to_whole((double)a[i]);
      break;
  }
#undef COMPARE
}

// Whole numbers of whole numbers; what overflows wraps around.
INLINE int64_t whole_step(uint8_t code, int64_t a, int64_t b) {
  switch (code) {
    case AT_STEP_ADD:
      return (int64_t)((uint64_t)a + (uint64_t)b);
    case AT_STEP_SUB:
      return (int64_t)((uint64_t)a - (uint64_t)b);
    case AT_STEP_MUL:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case AT_STEP_MIN:
      return a < b ? a : b;
    case AT_STEP_MAX:
      return a > b ? a : b;
    case AT_STEP_NEG:
      return (int64_t)(0 - (uint64_t)a);
    case AT_STEP_ABS:
      return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case AT_STEP_SIGN:
      return (a > 0) - (a < 0);
    case AT_STEP_RELU:
      return a > 0 ? a : 0;
    case AT_STEP_EQ:
      return a == b;
    case AT_STEP_NE:
      return a != b;
    case AT_STEP_LT:
      return a < b;
    case AT_STEP_LE:
      return a <= b;
    case AT_STEP_GT:
      return a > b;
    case AT_STEP_GE:
      return a >= b;
    case AT_STEP_AND:
      return a & b;
    case AT_STEP_OR:
      return a | b;
    case AT_STEP_XOR:
      return a ^ b;
    case AT_STEP_NOT:
      return a == 0;
    case AT_STEP_BIT_NOT:
      return ~a;
    case AT_STEP_FLOOR_DIV:
    case AT_STEP_REMAINDER: {
      if (b == 0) return 0;
      if (b == -1) return code == AT_STEP_REMAINDER ? 0 : (int64_t)(0 - (uint64_t)a);
      const int64_t quotient = a / b, rest = a % b;
      const int down = rest != 0 && (rest < 0) != (b < 0);
      return code == AT_STEP_REMAINDER ? rest + (down ? b : 0) : quotient - down;
    }
    default:
      return a;
  }
}

INLINE void load_narrow(float* to, const int8_t* from, int64_t step, size_t count) {
  size_t i = 0;
  for (; step == 1 && i + VL <= count; i += VL) vstore(to + i, vload_int8(from + i));
  for (; i < count; ++i) to[i] = from[(int64_t)i * step];
}

INLINE void store_narrow(int8_t* to, const float* from, int64_t step, size_t count) {
  size_t i = 0;
  for (; step == 1 && i + VL <= count; i += VL) vstore_int8(to + i, vload(from + i));
  for (; i < count; ++i) to[(int64_t)i * step] = (int8_t)to_whole((double)from[i]);
}

// Reads `count` elements of source `v` into its block from element `into` on.
static void ew_load(const ew_job* job, const walk* w, unsigned v, const char* from, size_t into, size_t count,
                    ew_value* values) {
  const uint8_t dtype = w->dtype[v + 1];
  const int64_t step = w->stride[v + 1][w->rank - 1] * (int64_t)w->size[v + 1];
  if (dtype == AT_F32 && step == 4) {
    memcpy(values[v].floats + into, from, count * sizeof(float));
  } else if (job->narrow[v]) {
    load_narrow(values[v].floats + into, (const int8_t*)from, step, count);
  } else if (is_float(dtype)) {
    for (size_t i = 0; i < count; ++i) values[v].floats[into + i] = load_float(from + (int64_t)i * step, dtype);
  } else {
    for (size_t i = 0; i < count; ++i) values[v].wholes[into + i] = load_whole(from + (int64_t)i * step, dtype);
  }
}

INLINE int has_zero(const int64_t* at, size_t count) {
  int found = 0;
  for (size_t i = 0; i < count; ++i) found |= at[i] == 0;
  return found;
}

// What is the same in all blocks.
static void ew_constants(const ew_job* job, ew_value* values) {
  for (unsigned n = 0; n < job->count; ++n) {
    const ew_step* s = &job->steps[n];
    ew_value* value = &values[job->sources + n];
    if (s->code == AT_STEP_FLOAT) {
      float constant;
      memcpy(&constant, &s->constant, sizeof constant);
      for (size_t i = 0; i < BLOCK; i += VL) vstore(value->floats + i, vset(constant));
    } else if (s->code == AT_STEP_INT) {
      for (size_t i = 0; i < BLOCK; ++i) value->wholes[i] = s->constant;
    }
  }
}

// `a` holds floats or whole numbers.
INLINE void step_dequantize(const void* a, const float* scale, const float* zero, int narrow, float* out,
                            size_t count) {
  const float* floats = a;
  const int64_t* wholes = a;
  if (narrow) {
    for (size_t i = 0; i < count; i += VL) {
      vstore(out + i, (vload(floats + i) - vload(zero + i)) * vload(scale + i));
    }
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = ((float)wholes[i] - zero[i]) * scale[i];
  }
}

INLINE void step_quantize(const float* a, const float* factor, const float* zero, float* out, size_t count) {
  for (size_t i = 0; i < count; i += VL) {
    const vf x = vnearest(vload(a + i) * vload(factor + i)) + vload(zero + i);
    vstore(out + i, vceil_at(vfloor_at(x, vset(INT8_MIN)), vset(INT8_MAX)));
  }
}

// Takes all steps over a block; the last one's result goes to `result` where there is one.
static void ew_steps(ew_job* job, ew_value* values, const void** rows, float* result, size_t count) {
  for (unsigned n = 0; n < job->count; ++n) {
    const ew_step* s = &job->steps[n];
    ew_value* value = &values[job->sources + n];
    float* out = result && n + 1 == job->count ? result : value->floats;
    rows[job->sources + n] = out;
    if (s->code == AT_STEP_FLOAT) {
      if (out == result) memcpy(result, value->floats, count * sizeof(float));
    } else if (s->code == AT_STEP_INT) {
      continue;
    } else if (s->code == AT_STEP_DEQUANTIZE) {
      const int narrow = s->a < job->sources && job->narrow[s->a];
      step_dequantize(rows[s->a], rows[s->b], rows[s->c], narrow, out, count);
    } else if (s->code == AT_STEP_QUANTIZE) {
      float whole[BLOCK];
      const int is_last = n + 1 == job->count && job->is_narrow;
      step_quantize(rows[s->a], rows[s->b], rows[s->c], is_last ? value->floats : whole, count);
      for (size_t i = 0; i < count && !is_last; ++i) value->wholes[i] = to_whole((double)whole[i]);
    } else if (s->code == AT_STEP_TO_FLOAT) {
      const int64_t* a = rows[s->a];
      for (size_t i = 0; i < count; ++i) out[i] = (float)a[i];
    } else if (s->code == AT_STEP_WHERE) {
      const int64_t* a = rows[s->a];
      if (s->as_float) {
        const float *b = rows[s->b], *c = rows[s->c];
        for (size_t i = 0; i < count; ++i) out[i] = a[i] ? b[i] : c[i];
      } else {
        const int64_t *b = rows[s->b], *c = rows[s->c];
        for (size_t i = 0; i < count; ++i) value->wholes[i] = a[i] ? b[i] : c[i];
      }
    } else if (s->as_float) {
      step_floats(s, out, rows[s->a], rows[s->b], count);
    } else if (s->from_float) {
      step_compare(s, value->wholes, rows[s->a], rows[s->b], count);
    } else {
      const int64_t *a = rows[s->a], *b = rows[s->b];
      if ((s->code == AT_STEP_FLOOR_DIV || s->code == AT_STEP_REMAINDER) && has_zero(b, count)) {
        atomic_store_explicit(&job->status, ATALLA_ZERO_DIVISOR, memory_order_relaxed);
      }
      for (size_t i = 0; i < count; ++i) value->wholes[i] = whole_step(s->code, a[i], b[i]);
    }
  }
}

static void ew_store(const ew_job* job, const walk* w, char* dst, const void* result, size_t from, size_t count) {
  const int64_t step = w->stride[0][w->rank - 1] * (int64_t)w->size[0];
  const int as_float = job->count ? job->steps[job->count - 1].as_float : is_float(w->dtype[1]);
  const float* floats = (const float*)result + from;
  if (as_float && w->dtype[0] == AT_F32 && step == 4) {
    memcpy(dst, floats, count * sizeof(float));
    return;
  }
  if (job->is_narrow) {
    store_narrow((int8_t*)dst, floats, step, count);
    return;
  }
  for (size_t i = 0; i < count; ++i, dst += step) {
    if (!as_float) {
      store_whole(dst, w->dtype[0], ((const int64_t*)result)[from + i]);
    } else {
      store_float(dst, w->dtype[0], floats[i]);
    }
  }
}

// A piece of one row: whole vectors of dense floats are read and written where they are.
static void ew_piece(ew_job* job, const walk* w, char* const* at, size_t count, ew_value* values) {
  const void* rows[MOST_VALUES];
  for (unsigned v = 0; v < job->sources; ++v) {
    const int in_place = count % VL == 0 && w->dtype[v + 1] == AT_F32 && w->stride[v + 1][w->rank - 1] == 1;
    rows[v] = in_place ? (const void*)at[v + 1] : &values[v];
    if (!in_place) ew_load(job, w, v, at[v + 1], 0, count, values);
  }
  const int direct = w->dtype[0] == AT_F32 && w->stride[0][w->rank - 1] == 1 && count % VL == 0 && job->count > 0;
  ew_steps(job, values, rows, direct ? (float*)(void*)at[0] : NULL, count);
  if (!direct) ew_store(job, w, at[0], rows[job->sources + job->count - 1], 0, count);
}

// Several rows fill a block. What lies densely over the rows is taken in place, what is the same in all is read once.
static void ew_short_rows(ew_job* job, size_t first, size_t last, ew_value* values) {
  const walk* w = &job->spread.walk;
  const size_t length = job->spread.length, together = BLOCK / length;
  const void* rows[MOST_VALUES];
  int in_place[WALKERS], fixed[WALKERS];
  for (unsigned v = 0; v < w->views; ++v) {
    const int dense = w->dtype[v] == AT_F32 && w->stride[v][1] == 1 && w->stride[v][0] == (int64_t)length;
    in_place[v] = dense && length * together % VL == 0;
    fixed[v] = w->stride[v][0] == 0;
  }
  for (size_t row = first; row < last; row += together) {
    const size_t here = last - row < together ? last - row : together;
    const int whole = here == together;
    for (unsigned v = 0; v < job->sources; ++v) {
      char* at = w->data[v + 1] + (int64_t)row * w->stride[v + 1][0] * (int64_t)w->size[v + 1];
      rows[v] = whole && in_place[v + 1] ? (const void*)at : &values[v];
      if (rows[v] == at || (fixed[v + 1] && row > first)) continue;
      const int64_t step = w->stride[v + 1][0] * (int64_t)w->size[v + 1];
      for (size_t i = 0; i < here; ++i, at += step) ew_load(job, w, v, at, i * length, length, values);
    }
    char* out = w->data[0] + (int64_t)row * w->stride[0][0] * (int64_t)w->size[0];
    const int direct = whole && in_place[0];
    ew_steps(job, values, rows, direct ? (float*)(void*)out : NULL, here * length);
    if (direct) continue;
    const int64_t step = w->stride[0][0] * (int64_t)w->size[0];
    for (size_t i = 0; i < here; ++i, out += step)
      ew_store(job, w, out, rows[job->sources + job->count - 1], i * length, length);
  }
}

static void ew_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  ew_job* job = argument;
  const spread* s = &job->spread;
  const walk* w = &s->walk;
  const size_t from = item / s->pieces * s->rows_each, begin = item % s->pieces * s->length_each;
  const size_t count = s->length - begin < s->length_each ? s->length - begin : s->length_each;
  const size_t last = from + s->rows_each < s->rows ? from + s->rows_each : s->rows;
  ew_value values[MOST_VALUES];
  ew_constants(job, values);
  if (s->length <= BLOCK / 2 && w->rank == 2 && job->count) {
    ew_short_rows(job, from, last, values);
    return;
  }
  for (size_t row = from; row < last; ++row) {
    char* at[WALKERS];
    walk_row(w, row, at);
    for (size_t done = 0; done < count;) {
      // Whole vectors first: a block that ends within a vector is copied.
      size_t block = count - done < BLOCK ? count - done : BLOCK;
      if (block > VL) block = block / VL * VL;
      char* here[WALKERS];
      for (unsigned v = 0; v < w->views; ++v) {
        here[v] = at[v] + (int64_t)(begin + done) * w->stride[v][w->rank - 1] * (int64_t)w->size[v];
      }
      ew_piece(job, w, here, block, values);
      done += block;
    }
  }
}

// A source of int8 that no step reads but to dequantise it, and a result that a step quantises.
static void find_narrow(ew_job* job, const at_call* call) {
  for (unsigned v = 0; v < job->sources; ++v) job->narrow[v] = call->src[v].dtype == AT_I8 && job->count;
  for (unsigned i = 0; i < job->count; ++i) {
    const ew_step* s = &job->steps[i];
    const uint8_t operands[] = {s->a, s->b, s->c};
    const char* kinds = at_step_spec_of(s->code)->operands;
    for (unsigned k = s->code == AT_STEP_DEQUANTIZE; kinds[k]; ++k) {
      if (operands[k] < job->sources) job->narrow[operands[k]] = 0;
    }
  }
  job->is_narrow = call->dst.dtype == AT_I8 && job->count && job->steps[job->count - 1].code == AT_STEP_QUANTIZE;
}

static int elementwise(const at_call* call) {
  if (at_elements(&call->dst) == 0) return 0;
  const at_view* views[WALKERS] = {&call->dst};
  for (unsigned i = 0; i < call->sources; ++i) views[i + 1] = &call->src[i];
  const walk w = walk_of(views, call->sources + 1);
  ew_job job = {.spread = spread_of(call, &w), .count = call->word_count, .sources = call->sources};
  uint8_t floats[MOST_VALUES];
  for (unsigned i = 0; i < call->sources; ++i) floats[i] = (uint8_t)is_float(call->src[i].dtype);
  for (unsigned i = 0; i < job.count; ++i) {
    ew_step s = read_step(call->words[i]);
    const int is_constant = !at_step_spec_of(s.code)->operands[0];
    s.from_float = !is_constant && floats[s.a];
    if (is_constant) s.a = s.b = s.c = 0;
    s.as_float = (uint8_t)at_step_is_float(s.code, s.from_float, floats[s.b]);
    // A step of one operand reads that twice: the other number is 0, and what it means may be shorter.
    const int is_mixed = s.code == AT_STEP_WHERE || s.code == AT_STEP_DEQUANTIZE;
    if (!is_constant && !is_mixed && floats[s.a] != floats[s.b]) s.b = s.a;
    floats[job.sources + i] = s.as_float;
    job.steps[i] = s;
  }
  find_narrow(&job, call);
  at_pool_run(call->pool, job.spread.items, ew_item, &job);
  return atomic_load_explicit(&job.status, memory_order_relaxed);
}
