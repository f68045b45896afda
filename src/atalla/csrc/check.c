// What must hold of each instruction, so that a kernel that trusts it never leaves its tensors.
#include "check.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ATTRIBUTE = 1 << 20, MOST_STEPS = 40, MOST_FILTER_ROWS = 64 };

typedef struct {
  const atalla_blob* blob;
  const at_insn* insn;
  const at_tensor *dst, *src[AT_SOURCES];
} looking;

static int64_t word(const looking* l, int number) {
  return (int64_t)at_u64(l->blob->words + 8 * ((size_t)l->insn->first_word + (size_t)number));
}

static bool in_range(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

static bool same_shape(const at_tensor* a, const at_tensor* b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; ++i) {
    if (a->dim[i] != b->dim[i]) return false;
  }
  return true;
}

static bool is_strided(const at_tensor* t, uint8_t dtype) { return t->layout == AT_STRIDED && t->dtype == dtype; }

// One step in a dim is one element, or the dim has but one.
static bool is_dense(const at_tensor* t, int dim) { return t->stride[dim] == 1 || t->dim[dim] <= 1; }

static bool is_contiguous(const at_tensor* t) {
  int64_t step = 1;
  for (int i = t->rank; i-- > 0;) {
    if (t->dim[i] > 1 && t->stride[i] != step) return false;
    step *= t->dim[i] > 1 ? t->dim[i] : 1;
  }
  return true;
}

static bool is_float(uint8_t dtype) {
  return dtype == AT_F32 || dtype == AT_F64 || dtype == AT_F16 || dtype == AT_BF16;
}

static bool is_vector(const at_tensor* t, int64_t count) {
  return is_strided(t, AT_F32) && t->rank == 1 && t->dim[0] == count && is_dense(t, 0);
}

bool at_packed_fits(const at_tensor* t) {
  if (t->dtype != AT_F32) return false;
  if (t->layout == AT_DEPTHWISE) return t->rank == 2;
  return t->rank == 3 && (t->layout != AT_WINOGRAD || t->dim[1] == 36);
}

// A weight [N, taps, K] whose bytes are those of its panels.
static bool is_weight(const at_tensor* t, uint8_t layout, int64_t n, int64_t taps, int64_t k, int64_t groups) {
  if (t->layout != layout || t->dim[0] != n || t->dim[1] != taps || t->dim[2] != k) return false;
  const __int128 panels = (n / groups + AT_PANEL - 1) / AT_PANEL;
  return (__int128)t->bytes == panels * groups * AT_PANEL * taps * k * 4;
}

static int check_epilogue(const looking* l, int at) {
  if (!in_range(word(l, at), 0, AT_ACT_COUNT - 1)) return AT_BAD_ATTRIBUTE;
  if (isnan(at_number(word(l, at + 1))) || isnan(at_number(word(l, at + 2)))) return AT_BAD_ATTRIBUTE;
  return 0;
}

static int check_gemm(const looking* l) {
  const at_tensor *src = l->src[0], *dst = l->dst, *bias = l->src[2], *residual = l->src[3];
  if (!is_strided(src, AT_F32) || !is_strided(dst, AT_F32) || src->rank != dst->rank || src->rank < 1)
    return AT_BAD_OPERANDS;
  const int last = src->rank - 1;
  for (int i = 0; i < last; ++i) {
    if (src->dim[i] != dst->dim[i]) return AT_BAD_OPERANDS;
  }
  if (!is_dense(src, last) || !is_dense(dst, last)) return AT_BAD_OPERANDS;
  if (!is_weight(l->src[1], AT_PANELS, dst->dim[last], 1, src->dim[last], 1)) return AT_BAD_OPERANDS;
  if (bias && !is_vector(bias, dst->dim[last])) return AT_BAD_OPERANDS;
  if (residual && (!is_strided(residual, AT_F32) || !same_shape(residual, dst) || !is_dense(residual, last))) {
    return AT_BAD_OPERANDS;
  }
  return check_epilogue(l, AT_GEMM_ACT);
}

static bool is_image(const at_tensor* t) { return is_strided(t, AT_F32) && t->rank == 4 && is_dense(t, 1); }

// Strides, padding, dilation and size of a window, which begin at the same word in all operations that have one.
static bool is_window(const looking* l, int at) {
  for (int i = 0; i < 10; ++i) {
    if (!in_range(word(l, at + i), i >= 2 && i < 6 ? 0 : 1, MOST_ATTRIBUTE)) return false;
  }
  return true;
}

static int check_conv(const looking* l) {
  const at_tensor *src = l->src[0], *dst = l->dst, *bias = l->src[2], *residual = l->src[3];
  const bool few = l->insn->op == AT_OP_CONV2D && word(l, AT_CONV2D_GROUPS) == 1 && src->rank == 4 &&
                   src->dim[1] <= AT_FEW_CHANNELS && is_strided(src, AT_F32);
  if ((!is_image(src) && !few) || !is_image(dst) || src->dim[0] != dst->dim[0]) return AT_BAD_OPERANDS;
  if (!is_window(l, AT_CONV2D_STRIDE_H) || !in_range(word(l, AT_CONV2D_GROUPS), 1, MOST_ATTRIBUTE))
    return AT_BAD_ATTRIBUTE;
  const int64_t high = word(l, AT_CONV2D_KERNEL_H), wide = word(l, AT_CONV2D_KERNEL_W),
                groups = word(l, AT_CONV2D_GROUPS);
  const int64_t taps = high * wide, channels = src->dim[1], columns = dst->dim[1];
  if (channels % groups || columns % groups) return AT_BAD_OPERANDS;
  if (l->insn->op == AT_OP_DWCONV2D) {
    const at_tensor* w = l->src[1];
    if (high > MOST_FILTER_ROWS || groups != channels || columns != channels) return AT_BAD_ATTRIBUTE;
    if (w->layout != AT_DEPTHWISE || w->dim[0] != channels || w->dim[1] != taps) return AT_BAD_OPERANDS;
    if ((__int128)w->bytes != (__int128)channels * taps * 4) return AT_BAD_OPERANDS;
  } else if (l->insn->op == AT_OP_CONV2D_WINO) {
    bool plain = high == 3 && wide == 3 && groups == 1;
    for (int i = 0; i < 2; ++i) {
      plain = plain && word(l, AT_CONV2D_STRIDE_H + i) == 1 && word(l, AT_CONV2D_DILATION_H + i) == 1;
    }
    if (!plain) return AT_BAD_ATTRIBUTE;
    if (!is_weight(l->src[1], AT_WINOGRAD, columns, 36, channels, 1)) return AT_BAD_OPERANDS;
  } else if (!is_weight(l->src[1], AT_PANELS, columns, taps, channels / groups, groups)) {
    return AT_BAD_OPERANDS;
  }
  if (bias && !is_vector(bias, columns)) return AT_BAD_OPERANDS;
  if (residual && (!is_image(residual) || !same_shape(residual, dst))) return AT_BAD_OPERANDS;
  return check_epilogue(l, AT_CONV2D_ACT);
}

static int check_pool(const looking* l) {
  const at_tensor *src = l->src[0], *dst = l->dst;
  if (!is_image(src) || !is_image(dst) || src->dim[0] != dst->dim[0] || src->dim[1] != dst->dim[1])
    return AT_BAD_OPERANDS;
  if (!in_range(word(l, AT_POOL2D_KIND), 0, AT_POOL_COUNT - 1) || !is_window(l, AT_POOL2D_STRIDE_H))
    return AT_BAD_ATTRIBUTE;
  return 0;
}

static int check_bmm(const looking* l) {
  const at_tensor *a = l->src[0], *b = l->src[1], *dst = l->dst;
  const at_tensor* all[] = {a, b, dst};
  for (int i = 0; i < 3; ++i) {
    if (!is_strided(all[i], AT_F32) || all[i]->rank != dst->rank || dst->rank < 2) return AT_BAD_OPERANDS;
  }
  const int n = dst->rank - 1, m = dst->rank - 2;
  for (int i = 0; i < m; ++i) {
    if (a->dim[i] != dst->dim[i] || b->dim[i] != dst->dim[i]) return AT_BAD_OPERANDS;
  }
  if (a->dim[m] != dst->dim[m] || b->dim[n] != dst->dim[n] || a->dim[n] != b->dim[m] || !is_dense(dst, n))
    return AT_BAD_OPERANDS;
  return isnan(at_number(word(l, AT_BMM_SCALE))) ? AT_BAD_ATTRIBUTE : 0;
}

static int check_attention(const looking* l) {
  const at_tensor *q = l->src[0], *k = l->src[1], *v = l->src[2], *mask = l->src[3], *dst = l->dst;
  const at_tensor* all[] = {q, k, v, dst};
  for (int i = 0; i < 4; ++i) {
    if (!is_strided(all[i], AT_F32) || all[i]->rank != 4) return AT_BAD_OPERANDS;
    if (all[i]->dim[0] != q->dim[0] || all[i]->dim[1] != q->dim[1]) return AT_BAD_OPERANDS;
  }
  if (k->dim[3] != q->dim[3] || v->dim[2] != k->dim[2] || dst->dim[2] != q->dim[2] || dst->dim[3] != v->dim[3]) {
    return AT_BAD_OPERANDS;
  }
  if (!is_dense(q, 3) || !is_dense(dst, 3)) return AT_BAD_OPERANDS;
  if (mask && (!is_strided(mask, AT_F32) || mask->rank != 4 || mask->dim[0] != q->dim[0] || mask->dim[1] != q->dim[1] ||
               mask->dim[2] != q->dim[2] || mask->dim[3] != k->dim[2])) {
    return AT_BAD_OPERANDS;
  }
  if (!in_range(word(l, AT_ATTENTION_CAUSAL), 0, 1) || isnan(at_number(word(l, AT_ATTENTION_SCALE))))
    return AT_BAD_ATTRIBUTE;
  return 0;
}

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

static int check_ew(const looking* l) {
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

static int check_gather(const looking* l) {
  const at_tensor *table = l->src[0], *index = l->src[1], *dst = l->dst;
  if (table->layout != AT_STRIDED || table->dtype != dst->dtype || table->rank < 1) return AT_BAD_OPERANDS;
  if (index->dtype != AT_I64 && index->dtype != AT_I32) return AT_BAD_OPERANDS;
  if (dst->rank != index->rank + table->rank - 1 || !is_contiguous(table) || !is_contiguous(dst))
    return AT_BAD_OPERANDS;
  for (int i = 0; i < dst->rank; ++i) {
    if (dst->dim[i] != (i < index->rank ? index->dim[i] : table->dim[i - index->rank + 1])) return AT_BAD_OPERANDS;
  }
  return 0;
}

static bool is_reduced(uint8_t dtype) {
  return dtype == AT_F32 || dtype == AT_I64 || dtype == AT_I32 || dtype == AT_BOOL;
}

static int check_reduce(const looking* l) {
  const at_tensor *src = l->src[0], *dst = l->dst;
  const int64_t kind = word(l, AT_REDUCE_KIND), dims = word(l, AT_REDUCE_DIMS);
  if (!in_range(kind, 0, AT_REDUCE_COUNT - 1) || !in_range(dims, 0, ((int64_t)1 << src->rank) - 1))
    return AT_BAD_ATTRIBUTE;
  if (src->layout != AT_STRIDED || src->rank != dst->rank || !is_reduced(src->dtype)) return AT_BAD_OPERANDS;
  for (int i = 0; i < src->rank; ++i) {
    if (dst->dim[i] != (dims >> i & 1 ? 1 : src->dim[i])) return AT_BAD_OPERANDS;
  }
  uint8_t made = src->dtype;
  if (kind == AT_REDUCE_ALL || kind == AT_REDUCE_ANY) made = AT_BOOL;
  if (kind == AT_REDUCE_ARGMAX || kind == AT_REDUCE_ARGMIN) made = AT_I64;
  if ((kind == AT_REDUCE_SUM || kind == AT_REDUCE_PROD) && src->dtype != AT_F32) made = AT_I64;
  if ((kind == AT_REDUCE_MEAN || kind == AT_REDUCE_VAR) && src->dtype != AT_F32) return AT_BAD_OPERANDS;
  if ((kind == AT_REDUCE_ARGMAX || kind == AT_REDUCE_ARGMIN) && (dims == 0 || (dims & (dims - 1))))
    return AT_BAD_ATTRIBUTE;
  if (isnan(at_number(word(l, AT_REDUCE_CORRECTION)))) return AT_BAD_ATTRIBUTE;
  return dst->dtype == made ? 0 : AT_BAD_OPERANDS;
}

static int check_softmax(const looking* l) {
  const at_tensor* src = l->src[0];
  if (!is_strided(src, AT_F32) || !is_strided(l->dst, AT_F32) || !same_shape(src, l->dst)) return AT_BAD_OPERANDS;
  if (!in_range(word(l, AT_SOFTMAX_AXIS), 0, src->rank - 1) || !in_range(word(l, AT_SOFTMAX_LOG), 0, 1))
    return AT_BAD_ATTRIBUTE;
  return 0;
}

static int check_norm(const looking* l) {
  const at_tensor* src = l->src[0];
  if (!is_strided(src, AT_F32) || !is_strided(l->dst, AT_F32) || !same_shape(src, l->dst)) return AT_BAD_OPERANDS;
  const int64_t dims = word(l, AT_NORM_DIMS);
  if (!in_range(word(l, AT_NORM_KIND), 0, AT_NORM_COUNT - 1) || !in_range(dims, 1, src->rank)) return AT_BAD_ATTRIBUTE;
  if (isnan(at_number(word(l, AT_NORM_EPS)))) return AT_BAD_ATTRIBUTE;
  for (int i = 1; i < 3; ++i) {
    const at_tensor* part = l->src[i];
    if (!part) continue;
    if (!is_strided(part, AT_F32) || part->rank != dims || !is_contiguous(part)) return AT_BAD_OPERANDS;
    for (int d = 0; d < dims; ++d) {
      if (part->dim[d] != src->dim[src->rank - dims + d]) return AT_BAD_OPERANDS;
    }
  }
  return 0;
}

static int check_cumsum(const looking* l) {
  const at_tensor* src = l->src[0];
  if (src->layout != AT_STRIDED || !is_reduced(src->dtype) || !same_shape(src, l->dst)) return AT_BAD_OPERANDS;
  if (l->dst->dtype != AT_F32 && (l->dst->dtype != AT_I64 || src->dtype == AT_F32)) return AT_BAD_OPERANDS;
  return in_range(word(l, AT_CUMSUM_AXIS), 0, src->rank - 1) ? 0 : AT_BAD_ATTRIBUTE;
}

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
      return check_gather(&l);
    case AT_OP_EW:
      return check_ew(&l);
    case AT_OP_GEMM:
      return check_gemm(&l);
    case AT_OP_BMM:
      return check_bmm(&l);
    case AT_OP_POOL2D:
      return check_pool(&l);
    case AT_OP_REDUCE:
      return check_reduce(&l);
    case AT_OP_SOFTMAX:
      return check_softmax(&l);
    case AT_OP_NORM:
      return check_norm(&l);
    case AT_OP_ATTENTION:
      return check_attention(&l);
    case AT_OP_CUMSUM:
      return check_cumsum(&l);
    default:
      return check_conv(&l);
  }
}

// Whether no two elements of a view share memory: each dim steps over all smaller ones.
static bool is_injective(const at_tensor* t) {
  int64_t stride[AT_DIMS], dim[AT_DIMS];
  int count = 0;
  for (int i = 0; i < t->rank; ++i) {
    if (t->dim[i] == 0) return true;
    if (t->dim[i] == 1) continue;
    const int64_t step = t->stride[i] < 0 ? -t->stride[i] : t->stride[i];
    int at = count++;
    for (; at > 0 && stride[at - 1] > step; --at) {
      stride[at] = stride[at - 1];
      dim[at] = dim[at - 1];
    }
    stride[at] = step;
    dim[at] = t->dim[i];
  }
  __int128 below = 0;
  for (int i = 0; i < count; ++i) {
    if ((__int128)stride[i] <= below) return false;
    below += (__int128)(dim[i] - 1) * stride[i];
  }
  return true;
}

typedef struct {
  uint32_t first, last;  // instructions; first is AT_NOTHING before the first write
} life;

static int write_one(const atalla_blob* blob, const at_tensor* t, life* lives, uint32_t step) {
  if (t->space == AT_INPUT || t->space == AT_CONST || !is_injective(t)) return AT_BAD_WRITE;
  life* l = &lives[t->root];
  if (l->first == AT_NOTHING) l->first = step;
  l->last = step;
  (void)blob;
  return 0;
}

static int read_one(const at_tensor* t, life* lives, uint32_t step) {
  const bool is_there = t->space == AT_INPUT || t->space == AT_CONST || t->space == AT_STATE;
  if (!is_there && lives[t->root].first == AT_NOTHING) return AT_BAD_READ;
  lives[t->root].last = step;
  return 0;
}

static int follow(const atalla_blob* blob, const at_insn* insn, uint32_t step, life* lives) {
  uint32_t first = 0, made = 0;
  if (insn->op == AT_OP_CALL_HOST) {
    const uint64_t call = at_u64(blob->words + 8 * (size_t)insn->first_word);
    first = at_u32(blob->calls + 16 * call + 8);
    made = at_u32(blob->calls + 16 * call + 12);
  }
  for (unsigned i = 0; i < insn->sources; ++i) {
    const uint32_t number = at_u32(blob->operands + 4 * ((size_t)insn->first_source + i));
    if (number == AT_NOTHING) continue;
    const at_tensor* t = &blob->tensors[number];
    if (insn->dst != AT_NOTHING && t->root == blob->tensors[insn->dst].root) return AT_BAD_OVERLAP;
    for (uint32_t k = 0; k < made; ++k) {
      if (blob->tensors[at_u32(blob->operands + 4 * ((size_t)first + k))].root == t->root) return AT_BAD_OVERLAP;
    }
    const int fault = read_one(t, lives, step);
    if (fault) return fault;
  }
  if (insn->dst != AT_NOTHING) return write_one(blob, &blob->tensors[insn->dst], lives, step);
  for (uint32_t k = 0; k < made; ++k) {
    const int fault = write_one(blob, &blob->tensors[at_u32(blob->operands + 4 * ((size_t)first + k))], lives, step);
    if (fault) return fault;
  }
  return 0;
}

typedef struct {
  uint32_t first, last;
  uint64_t begin, end;
} block;

static int by_first(const void* a, const void* b) {
  const uint32_t x = ((const block*)a)->first, y = ((const block*)b)->first;
  return x < y ? -1 : x > y;
}

// Blocks of one space that are alive at once do not share memory: a sweep over time.
static int check_overlap(const atalla_blob* blob, const life* lives, uint8_t space) {
  block* blocks = calloc(blob->tensor_count ? blob->tensor_count : 1, sizeof *blocks);
  if (!blocks) return ATALLA_OUT_OF_MEMORY;
  size_t count = 0, alive = 0;
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const at_tensor* t = &blob->tensors[i];
    if (t->root != i || t->space != space || t->bytes == 0) continue;
    const bool always = space == AT_STATE;
    if (!always && lives[i].first == AT_NOTHING) continue;
    blocks[count++] = (block){always ? 0 : lives[i].first, always ? AT_NOTHING : lives[i].last, (uint64_t)t->place,
                              (uint64_t)t->place + t->bytes};
  }
  qsort(blocks, count, sizeof *blocks, by_first);
  int fault = 0;
  for (size_t i = 0; i < count && !fault; ++i) {
    const block one = blocks[i];
    size_t kept = 0;
    for (size_t k = 0; k < alive; ++k) {  // those that ended are dropped
      if (blocks[k].last < one.first) continue;
      if (blocks[k].begin < one.end && one.begin < blocks[k].end) fault = AT_BAD_OVERLAP;
      blocks[kept++] = blocks[k];
    }
    blocks[kept++] = one;
    alive = kept;
  }
  free(blocks);
  return fault;
}

int at_check_flow(const atalla_blob* blob) {
  life* lives = malloc((blob->tensor_count ? blob->tensor_count : 1) * sizeof *lives);
  if (!lives) return ATALLA_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < blob->tensor_count; ++i) lives[i] = (life){AT_NOTHING, 0};
  int fault = 0;
  for (uint32_t i = 0; i < blob->insn_count && !fault; ++i) fault = follow(blob, &blob->insns[i], i, lives);
  for (uint32_t i = 0; i < blob->tensor_count && !fault; ++i) {
    const at_tensor* t = &blob->tensors[i];
    if (t->root == i && t->space == AT_OUTPUT && lives[i].first == AT_NOTHING) fault = AT_BAD_READ;
  }
  if (!fault) fault = check_overlap(blob, lives, AT_ARENA);
  if (!fault) fault = check_overlap(blob, lives, AT_STATE);
  free(lives);
  return fault;
}

const char* at_verdict(int verdict) {
  static const char* const words[] = {
      "the size is not the one that the header says",
      "this is no Atalla blob",
      "written for the other order of bytes",
      "a version or a feature that this loader does not know",
      "the header is damaged",
      "the table of sections is damaged",
      "a section is damaged: its checksum is wrong",
      "the strings are damaged",
      "a tensor's description has no meaning",
      "a tensor reaches out of its memory",
      "a list of inputs, outputs, operands or calls is damaged",
      "an instruction is unknown, or has the wrong number of operands",
      "an instruction's attribute has no meaning",
      "an instruction does not take these operands",
      "an instruction writes what must not be written",
      "something is read before it was written",
      "two tensors share memory while both are needed",
  };
  const int number = verdict - AT_BAD_SIZE;
  if (verdict == ATALLA_OUT_OF_MEMORY) return "out of memory";
  return number >= 0 && number < (int)(sizeof words / sizeof *words) ? words[number] : "not sound";
}
