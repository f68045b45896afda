// Steps of EW: what each makes of rows of floats or of whole numbers.
#pragma once

#include "elementary.h"
#include "walk.h"

typedef struct {
  uint8_t code, a, b, c;  // numbers of values
  int32_t constant;
  uint8_t as_float, from_float;  // of the result, and of what it is made of
} ew_step;

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
      EACH_PAIR(vselect(vnan(y), y, vmin(x, y)));
      break;
    case AT_STEP_MAX:
      EACH_PAIR(vselect(vnan(y), y, vmax(x, y)));
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

// A loop for each step that is often taken: what it does is known to the compiler then.
static void step_wholes(uint8_t code, int64_t* out, const int64_t* a, const int64_t* b, size_t count) {
#define EACH_WHOLE(CODE)                                                      \
  case CODE:                                                                  \
    for (size_t i = 0; i < count; ++i) out[i] = whole_step(CODE, a[i], b[i]); \
    break;
  switch (code) {
    EACH_WHOLE(AT_STEP_ADD)
    EACH_WHOLE(AT_STEP_SUB)
    EACH_WHOLE(AT_STEP_MUL)
    EACH_WHOLE(AT_STEP_MIN)
    EACH_WHOLE(AT_STEP_MAX)
    EACH_WHOLE(AT_STEP_EQ)
    EACH_WHOLE(AT_STEP_NE)
    EACH_WHOLE(AT_STEP_LT)
    EACH_WHOLE(AT_STEP_LE)
    EACH_WHOLE(AT_STEP_GT)
    EACH_WHOLE(AT_STEP_GE)
    EACH_WHOLE(AT_STEP_AND)
    EACH_WHOLE(AT_STEP_OR)
    EACH_WHOLE(AT_STEP_NOT)
    default:
      for (size_t i = 0; i < count; ++i) out[i] = whole_step(code, a[i], b[i]);
  }
#undef EACH_WHOLE
}
