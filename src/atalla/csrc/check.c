// What must hold of each instruction, so that a kernel that trusts it never leaves its tensors.
#include "check_parts.h"

typedef struct {
  uint8_t least, most, present,
      words;  // sources; how many of them are always there, 255 all; attributes, 255 any number
} arity;

static const arity arities[AT_OP_COUNT] = {
    [AT_OP_END] = {0, 0, 0, 0},     [AT_OP_CALL_HOST] = {0, 255, 255, 1}, [AT_OP_COPY] = {1, 1, 1, 0},
    [AT_OP_FILL] = {0, 0, 0, 2},    [AT_OP_IOTA] = {0, 0, 0, 2},          [AT_OP_GATHER] = {2, 2, 2, 0},
    [AT_OP_EW] = {0, 8, 8, 255},    [AT_OP_GEMM] = {2, 4, 2, 3},          [AT_OP_BMM] = {2, 2, 2, 1},
    [AT_OP_CONV2D] = {2, 4, 2, 14}, [AT_OP_CONV2D_WINO] = {2, 4, 2, 14},  [AT_OP_DWCONV2D] = {2, 4, 2, 14},
    [AT_OP_POOL2D] = {1, 1, 1, 11}, [AT_OP_REDUCE] = {1, 1, 1, 3},        [AT_OP_SOFTMAX] = {1, 1, 1, 2},
    [AT_OP_NORM] = {1, 3, 1, 3},    [AT_OP_ATTENTION] = {3, 4, 3, 2},     [AT_OP_CUMSUM] = {1, 1, 1, 1},
};

int at_check_instruction(const atalla_blob* blob, const at_insn* insn) {
  const arity form = arities[insn->op];
  if (insn->sources < form.least || (form.most != 255 && insn->sources > form.most)) return AT_BAD_INSTRUCTION;
  if (form.words != 255 && insn->words != form.words) return AT_BAD_INSTRUCTION;
  looking l = {.blob = blob, .insn = insn};
  for (unsigned i = 0; i < insn->sources; ++i) {
    const uint32_t number = at_u32(blob->operands + 4 * ((size_t)insn->first_source + i));
    if (number == AT_NOTHING && (form.present == 255 || i < form.present)) return AT_BAD_INSTRUCTION;
    if (i < AT_SOURCES && number != AT_NOTHING) l.src[i] = &blob->tensors[number];
  }
  if (insn->op == AT_OP_END) return 0;
  if (insn->op == AT_OP_CALL_HOST)
    return in_range(word(&l, 0), 0, (int64_t)blob->call_count - 1) ? 0 : AT_BAD_ATTRIBUTE;
  l.dst = &blob->tensors[insn->dst];
  if (l.dst->layout != AT_STRIDED) return AT_BAD_OPERANDS;
  switch (insn->op) {
    case AT_OP_COPY:
      return l.src[0]->layout == AT_STRIDED && same_shape(l.src[0], l.dst) ? 0 : AT_BAD_OPERANDS;
    case AT_OP_FILL:
      return 0;
    case AT_OP_IOTA:
      return l.dst->rank == 1 ? 0 : AT_BAD_OPERANDS;
    case AT_OP_GATHER:
      return at_check_gather(&l);
    case AT_OP_EW:
      return at_check_ew(&l);
    case AT_OP_GEMM:
      return at_check_gemm(&l);
    case AT_OP_BMM:
      return at_check_bmm(&l);
    case AT_OP_POOL2D:
      return at_check_pool(&l);
    case AT_OP_REDUCE:
      return at_check_reduce(&l);
    case AT_OP_SOFTMAX:
      return at_check_softmax(&l);
    case AT_OP_NORM:
      return at_check_norm(&l);
    case AT_OP_ATTENTION:
      return at_check_attention(&l);
    case AT_OP_CUMSUM:
      return at_check_cumsum(&l);
    default:
      return at_check_conv(&l);
  }
}
