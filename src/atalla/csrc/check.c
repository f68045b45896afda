// What must hold of each instruction, so that a kernel that trusts it never leaves its tensors.
#include "check_parts.h"

typedef struct {
  int8_t least, most, words;  // sources; attributes; -1: any number
  bool all;                   // none of its sources is absent
} op_spec;

static const op_spec specs[AT_OP_COUNT] = AT_OP_SPECS;

static int check_call(const resolved_insn* l) {
  return in_range(word(l, AT_CALL_HOST_CALL), 0, (int64_t)l->blob->call_count - 1) ? 0 : AT_BAD_ATTRIBUTE;
}

static int check_copy(const resolved_insn* l) {
  return l->src[0]->layout == AT_STRIDED && same_shape(l->src[0], l->dst) ? 0 : AT_BAD_OPERANDS;
}

static int check_iota(const resolved_insn* l) { return l->dst->rank == 1 ? 0 : AT_BAD_OPERANDS; }

// Of each operation; nothing more must hold of END and FILL.
static int (*const checks[AT_OP_COUNT])(const resolved_insn* l) = {
    [AT_OP_CALL_HOST] = check_call,     [AT_OP_COPY] = check_copy,          [AT_OP_IOTA] = check_iota,
    [AT_OP_GATHER] = at_check_gather,   [AT_OP_EW] = at_check_ew,           [AT_OP_GEMM] = at_check_gemm,
    [AT_OP_BMM] = at_check_bmm,         [AT_OP_CONV2D] = at_check_conv,     [AT_OP_CONV2D_WINO] = at_check_conv,
    [AT_OP_DWCONV2D] = at_check_conv,   [AT_OP_POOL2D] = at_check_pool,     [AT_OP_REDUCE] = at_check_reduce,
    [AT_OP_SOFTMAX] = at_check_softmax, [AT_OP_NORM] = at_check_norm,       [AT_OP_ATTENTION] = at_check_attention,
    [AT_OP_CUMSUM] = at_check_cumsum,   [AT_OP_RESIZE2D] = at_check_resize, [AT_OP_SCATTER] = at_check_scatter,
    [AT_OP_SAMPLE2D] = at_check_sample, [AT_OP_QGEMM] = at_check_qgemm,     [AT_OP_QCONV2D] = at_check_qconv,
    [AT_OP_QDWCONV2D] = at_check_qconv, [AT_OP_BGEMM] = at_check_gemm,      [AT_OP_BCONV2D] = at_check_conv,
};

int at_check_instruction(const atalla_blob* blob, const at_insn* insn) {
  const op_spec spec = specs[insn->op];
  if (insn->sources < spec.least || (spec.most >= 0 && insn->sources > spec.most)) return AT_BAD_INSTRUCTION;
  if (spec.words >= 0 && insn->words != (uint32_t)spec.words) return AT_BAD_INSTRUCTION;
  resolved_insn l = {.blob = blob, .insn = insn};
  for (unsigned i = 0; i < insn->sources; ++i) {
    const uint32_t number = at_operand(blob, insn->first_source + i);
    if (number == AT_NOTHING && (spec.all || i < (unsigned)spec.least)) return AT_BAD_INSTRUCTION;
    if (i < AT_SOURCES && number != AT_NOTHING) l.src[i] = &blob->tensors[number];
  }
  if (insn->dst != AT_NOTHING) {
    l.dst = &blob->tensors[insn->dst];
    if (l.dst->layout != AT_STRIDED) return AT_BAD_OPERANDS;
  }
  return checks[insn->op] ? checks[insn->op](&l) : 0;
}
