// What must hold of an EW: every step has operands of the kinds that it takes.
#include "check_parts.h"

enum { MOST_STEPS = 40 };

// Kinds of operands: 'f' floats, 'w' whole numbers, 's' two of the same kind, 'i' a whole number and two of one kind.
static char step_kind(uint8_t code) {
  switch (code) {
    case AT_STEP_ADD:
    case AT_STEP_SUB:
    case AT_STEP_MUL:
    case AT_STEP_MIN:
    case AT_STEP_MAX:
    case AT_STEP_EQ:
    case AT_STEP_NE:
    case AT_STEP_LT:
    case AT_STEP_LE:
    case AT_STEP_GT:
    case AT_STEP_GE:
    case AT_STEP_FLOOR_DIV:
    case AT_STEP_REMAINDER:
      return 's';
    case AT_STEP_DIV:
    case AT_STEP_POW:
      return 'F';
    case AT_STEP_AND:
    case AT_STEP_OR:
    case AT_STEP_XOR:
      return 'W';
    case AT_STEP_NOT:
    case AT_STEP_BIT_NOT:
    case AT_STEP_TO_FLOAT:
      return 'w';
    case AT_STEP_NEG:
    case AT_STEP_ABS:
    case AT_STEP_RELU:
    case AT_STEP_SIGN:
      return 'a';
    case AT_STEP_WHERE:
      return 'i';
    default:
      return 'f';
  }
}

int at_check_ew(const looking* l) {
  bool floats[AT_SOURCES + MOST_STEPS];
  const unsigned sources = l->insn->sources;
  if (l->dst->dtype == AT_F64 || l->insn->words < 1 || l->insn->words > MOST_STEPS) return AT_BAD_OPERANDS;
  for (unsigned i = 0; i < sources; ++i) {
    const at_tensor* src = l->src[i];
    if (src->layout != AT_STRIDED || src->dtype == AT_F64 || !same_shape(src, l->dst)) return AT_BAD_OPERANDS;
    floats[i] = is_float(src->dtype);
  }
  for (unsigned i = 0; i < l->insn->words; ++i) {
    const uint64_t bits = (uint64_t)word(l, (int)i);
    const uint8_t code = (uint8_t)bits;
    const unsigned made = sources + i, b = (uint8_t)(bits >> 8), c = (uint8_t)(bits >> 16);
    const uint32_t a = (uint32_t)(bits >> 32);
    if (code >= AT_STEP_COUNT || (bits >> 24 & 255)) return AT_BAD_ATTRIBUTE;
    if (code == AT_STEP_FLOAT || code == AT_STEP_INT) {
      if (b || c) return AT_BAD_ATTRIBUTE;
      floats[made] = code == AT_STEP_FLOAT;
      continue;
    }
    if (a >= made || b >= made || c >= made) return AT_BAD_ATTRIBUTE;
    const char kind = step_kind(code);
    bool good = true;
    if (kind == 'f') good = floats[a] && !b && !c;
    if (kind == 'w') good = !floats[a] && !b && !c;
    if (kind == 'a') good = !b && !c;
    if (kind == 's') good = floats[a] == floats[b] && !c;
    if (kind == 'F') good = floats[a] && floats[b] && !c;
    if (kind == 'W') good = !floats[a] && !floats[b] && !c;
    if (kind == 'i') good = !floats[a] && floats[b] == floats[c];
    if (!good) return AT_BAD_ATTRIBUTE;
    floats[made] = at_step_is_float(code, floats[a], floats[b]);
  }
  return floats[sources + l->insn->words - 1] == is_float(l->dst->dtype) ? 0 : AT_BAD_ATTRIBUTE;
}
