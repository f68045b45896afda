// What must hold of an EW: every step has operands of the kinds that it takes.
#include "check_parts.h"

// Whether operands are of the kinds that a step takes, and those that it has not are zero.
static bool takes(const at_step_spec* spec, const uint32_t operands[3], const bool* floats) {
  int same = -1;
  for (int i = 0; i < 3; ++i) {
    const char kind = spec->operands[i];
    if (!kind && operands[i]) return false;
    if (!kind) continue;
    const bool is_float = floats[operands[i]];
    if (kind == 's' ? same >= 0 && same != is_float : is_float != (kind == 'f')) return false;
    if (kind == 's') same = is_float;
  }
  return true;
}

int at_check_ew(const resolved_insn* l) {
  bool floats[AT_SOURCES + AT_STEPS] = {false};
  const unsigned sources = l->insn->sources;
  if (l->dst->dtype == AT_F64 || l->insn->words < 1 || l->insn->words > AT_STEPS) return AT_BAD_OPERANDS;
  for (unsigned i = 0; i < sources; ++i) {
    const at_tensor* src = l->src[i];
    if (src->layout != AT_STRIDED || src->dtype == AT_F64 || !same_shape(src, l->dst)) return AT_BAD_OPERANDS;
    floats[i] = is_float(src->dtype);
  }
  for (unsigned i = 0; i < l->insn->words; ++i) {
    const at_step s = at_step_of(word(l, (int)i));
    const uint32_t made = sources + i;
    if (s.code >= AT_STEP_COUNT || s.zero) return AT_BAD_ATTRIBUTE;
    const at_step_spec* spec = at_step_spec_of(s.code);
    const bool is_constant = !spec->operands[0];
    if (is_constant ? s.b || s.c : s.a >= made || s.b >= made || s.c >= made) return AT_BAD_ATTRIBUTE;
    const uint32_t operands[3] = {is_constant ? 0 : s.a, s.b, s.c};
    if (!takes(spec, operands, floats)) return AT_BAD_ATTRIBUTE;
    floats[made] = at_step_is_float(s.code, floats[operands[0]], floats[s.b]);
  }
  return floats[sources + l->insn->words - 1] == is_float(l->dst->dtype) ? 0 : AT_BAD_ATTRIBUTE;
}
