// EW: a chain of steps over blocks of elements that stay in the first-level cache.
//
// A value of the chain is a row of floats or of int64s; sources that lie densely are read where they are.
#pragma once

#include "walk.h"

enum { MOST_STEPS = 40, MOST_VALUES = AT_SOURCES + MOST_STEPS, BLOCK = 128 };

typedef struct {
  uint8_t code, a, b, c;  // numbers of values
  int32_t constant;
  uint8_t as_float, from_float;  // of the result, and of what it is made of
} ew_step;

typedef struct {
  spread spread;  // first, so that its pointer is the job's
  ew_step steps[MOST_STEPS];
  unsigned count, sources;
} ew_job;

typedef union {
  float floats[BLOCK];
  int64_t wholes[BLOCK];
} ew_value;

INLINE ew_step read_step(int64_t word) {
  const uint64_t bits = (uint64_t)word;
  ew_step s = {.code = (uint8_t)bits, .b = (uint8_t)(bits >> 8), .c = (uint8_t)(bits >> 16)};
  s.constant = (int32_t)(bits >> 32);
  s.a = (uint8_t)s.constant;
  return s;
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
      for (size_t i = 0; i < count; ++i) out[i] = floorf(a[i] / b[i]);
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

static void ew_block(const ew_job* job, const walk* w, char** at, size_t count) {
  ew_value values[MOST_VALUES];
  const void* rows[MOST_VALUES];
  for (unsigned v = 0; v < job->sources; ++v) {
    const unsigned view = v + 1;
    const int64_t step = w->stride[view][w->rank - 1] * (int64_t)w->size[view];
    rows[v] = &values[v];
    if (w->dtype[view] == AT_F32 && step == 4 && count % VL == 0) {
      rows[v] = at[view];
    } else if (w->dtype[view] == AT_F32 && step == 4) {
      memcpy(values[v].floats, at[view], count * sizeof(float));
    } else if (is_float(w->dtype[view])) {
      for (size_t i = 0; i < count; ++i) values[v].floats[i] = load_float(at[view] + (int64_t)i * step, w->dtype[view]);
    } else {
      for (size_t i = 0; i < count; ++i) values[v].wholes[i] = load_whole(at[view] + (int64_t)i * step, w->dtype[view]);
    }
  }
  const unsigned all = job->sources + job->count;
  const int64_t to = w->stride[0][w->rank - 1] * (int64_t)w->size[0];
  const int direct = w->dtype[0] == AT_F32 && to == 4 && count % VL == 0;
  for (unsigned n = 0; n < job->count; ++n) {
    const ew_step* s = &job->steps[n];
    ew_value* value = &values[job->sources + n];
    const int last = job->sources + n + 1 == all;
    float* out = last && direct ? (float*)(void*)at[0] : value->floats;
    rows[job->sources + n] = out;
    if (s->code == AT_STEP_FLOAT) {
      float constant;
      memcpy(&constant, &s->constant, sizeof constant);
      for (size_t i = 0; i < count; i += VL) vstore(out + i, vset(constant));
    } else if (s->code == AT_STEP_INT) {
      for (size_t i = 0; i < count; ++i) value->wholes[i] = s->constant;
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
      for (size_t i = 0; i < count; ++i) value->wholes[i] = whole_step(s->code, a[i], b[i]);
    }
  }
  if (direct) return;
  const void* result = rows[all - 1];
  const int as_float = job->count ? job->steps[job->count - 1].as_float : is_float(w->dtype[1]);
  for (size_t i = 0; i < count; ++i) {
    char* dst = at[0] + (int64_t)i * to;
    if (!as_float) {
      store_whole(dst, w->dtype[0], ((const int64_t*)result)[i]);
    } else if (w->dtype[0] == AT_F32) {
      *(float*)(void*)dst = ((const float*)result)[i];
    } else {
      store_float(dst, w->dtype[0], ((const float*)result)[i]);
    }
  }
}

static void ew_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const ew_job* job = argument;
  const spread* s = &job->spread;
  const walk* w = &s->walk;
  const size_t from = item / s->pieces * s->rows_each, begin = item % s->pieces * s->length_each;
  const size_t count = s->length - begin < s->length_each ? s->length - begin : s->length_each;
  for (size_t row = from; row < from + s->rows_each && row < s->rows; ++row) {
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
      ew_block(job, w, here, block);
      done += block;
    }
  }
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
    const int is_constant = s.code == AT_STEP_FLOAT || s.code == AT_STEP_INT;
    s.from_float = !is_constant && floats[s.a];
    if (is_constant) s.a = s.b = s.c = 0;
    s.as_float = (uint8_t)at_step_is_float(s.code, s.from_float, floats[s.b]);
    // A step of one operand reads that twice: the other number is 0, and what it means may be shorter.
    if (!is_constant && s.code != AT_STEP_WHERE && floats[s.a] != floats[s.b]) s.b = s.a;
    floats[job.sources + i] = s.as_float;
    job.steps[i] = s;
  }
  at_pool_run(call->pool, job.spread.items, ew_item, &job);
  return 0;
}
