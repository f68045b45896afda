// What must hold of products: GEMM, BMM, ATTENTION, convolutions, and of pools, which have the same windows.
#include <math.h>

#include "check_parts.h"

bool at_packed_fits(const at_tensor* t) {
  const bool is_float = t->dtype == AT_F32 && t->layout != AT_QUADS && t->layout != AT_PAIRS;
  const bool is_int8 = t->dtype == AT_I8 && (t->layout == AT_QUADS || t->layout == AT_DEPTHWISE);
  const bool is_bf16 = t->dtype == AT_BF16 && t->layout == AT_PAIRS;
  if (!is_float && !is_int8 && !is_bf16) return false;
  if (t->layout == AT_DEPTHWISE) return t->rank == 2;
  return t->rank == 3 && (t->layout != AT_WINOGRAD || t->dim[1] == 36 || t->dim[1] == 25 || t->dim[1] == 16);
}

// A weight [N, taps, K] whose bytes are those of its panels, of `deep` neighbours in depth.
static bool is_weight(const at_tensor* t, uint8_t layout, int64_t n, int64_t taps, int64_t k, int64_t groups,
                      int deep) {
  if (t->layout != layout || t->dim[0] != n || t->dim[1] != taps || t->dim[2] != k) return false;
  const __int128 panels = (n / groups + AT_PANEL - 1) / AT_PANEL, steps = ((__int128)taps * k + deep - 1) / deep;
  return (__int128)t->bytes == panels * groups * steps * (AT_PANEL * AT_LANE);
}

// A filter for each channel, [C, taps].
static bool is_filters(const at_tensor* t, uint8_t dtype, int64_t channels, int64_t taps) {
  if (t->layout != AT_DEPTHWISE || t->dtype != dtype || t->dim[0] != channels || t->dim[1] != taps) return false;
  return (__int128)t->bytes == (__int128)channels * taps * (__int128)at_size(dtype);
}

static int check_epilogue(const resolved_insn* l, int at) {
  if (!in_range(word(l, at), 0, AT_ACT_COUNT - 1)) return AT_BAD_ATTRIBUTE;
  if (isnan(at_number(word(l, at + 1))) || isnan(at_number(word(l, at + 2)))) return AT_BAD_ATTRIBUTE;
  return 0;
}

int at_check_gemm(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *dst = l->dst, *bias = l->src[2], *residual = l->src[3];
  if (!is_strided(src, AT_F32) || !is_strided(dst, AT_F32) || src->rank != dst->rank || src->rank < 1)
    return AT_BAD_OPERANDS;
  const int last = src->rank - 1;
  for (int i = 0; i < last; ++i) {
    if (src->dim[i] != dst->dim[i]) return AT_BAD_OPERANDS;
  }
  if (!is_dense(src, last) || !is_dense(dst, last)) return AT_BAD_OPERANDS;
  if (l->insn->op == AT_OP_BGEMM) {
    if (src->dim[last] > AT_MOST_DEPTH) return AT_BAD_OPERANDS;
    if (!is_weight(l->src[1], AT_PAIRS, dst->dim[last], 1, src->dim[last], 1, AT_PAIR)) return AT_BAD_OPERANDS;
  } else if (!is_weight(l->src[1], AT_PANELS, dst->dim[last], 1, src->dim[last], 1, 1)) {
    return AT_BAD_OPERANDS;
  }
  if (bias && !is_vector(bias, dst->dim[last])) return AT_BAD_OPERANDS;
  if (residual && (!is_strided(residual, AT_F32) || !same_shape(residual, dst) || !is_dense(residual, last))) {
    return AT_BAD_OPERANDS;
  }
  return check_epilogue(l, AT_GEMM_ACT);
}

// Strides, padding, dilation and size of a window, which begin at the same word in all operations that have one.
static bool is_window(const resolved_insn* l, int at) {
  for (int i = 0; i < 10; ++i) {
    if (!in_range(word(l, at + i), i >= 2 && i < 6 ? 0 : 1, AT_MOST_ATTRIBUTE)) return false;
  }
  return true;
}

int at_check_conv(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *dst = l->dst, *bias = l->src[2], *residual = l->src[3];
  const bool any = l->insn->op == AT_OP_CONV2D || l->insn->op == AT_OP_BCONV2D;
  const bool few = any && word(l, AT_CONV2D_GROUPS) == 1 && src->rank == 4 && src->dim[1] <= AT_FEW_CHANNELS &&
                   is_strided(src, AT_F32);
  if ((!is_image(src) && !few) || !is_image(dst) || src->dim[0] != dst->dim[0]) return AT_BAD_OPERANDS;
  if (!is_window(l, AT_CONV2D_STRIDE_H) || !in_range(word(l, AT_CONV2D_GROUPS), 1, AT_MOST_ATTRIBUTE))
    return AT_BAD_ATTRIBUTE;
  const int64_t high = word(l, AT_CONV2D_KERNEL_H), wide = word(l, AT_CONV2D_KERNEL_W),
                groups = word(l, AT_CONV2D_GROUPS);
  const int64_t taps = high * wide, channels = src->dim[1], columns = dst->dim[1];
  if (channels % groups || columns % groups) return AT_BAD_OPERANDS;
  if (l->insn->op == AT_OP_DWCONV2D) {
    const at_tensor* w = l->src[1];
    if (high > AT_MOST_FILTER_ROWS || groups != channels || columns != channels) return AT_BAD_ATTRIBUTE;
    if (!is_filters(w, AT_F32, channels, taps)) return AT_BAD_OPERANDS;
  } else if (l->insn->op == AT_OP_CONV2D_WINO) {
    const int64_t places = l->src[1]->dim[1], stride = (int64_t)at_wino_tile_of(places).stride;
    if (!is_weight(l->src[1], AT_WINOGRAD, columns, places, channels, 1, 1)) return AT_BAD_OPERANDS;
    bool plain = high == 3 && wide == 3 && groups == 1;
    for (int i = 0; i < 2; ++i) {
      plain = plain && word(l, AT_CONV2D_STRIDE_H + i) == stride && word(l, AT_CONV2D_DILATION_H + i) == 1;
    }
    if (!plain) return AT_BAD_ATTRIBUTE;
  } else if (l->insn->op == AT_OP_BCONV2D) {
    const int64_t depth = channels / groups;
    if (depth > AT_MOST_DEPTH || taps * depth > AT_MOST_DEPTH) return AT_BAD_ATTRIBUTE;
    if (!is_weight(l->src[1], AT_PAIRS, columns, taps, depth, groups, AT_PAIR)) return AT_BAD_OPERANDS;
  } else if (!is_weight(l->src[1], AT_PANELS, columns, taps, channels / groups, groups, 1)) {
    return AT_BAD_OPERANDS;
  }
  if (bias && !is_vector(bias, columns)) return AT_BAD_OPERANDS;
  if (residual && (!is_image(residual) || !same_shape(residual, dst))) return AT_BAD_OPERANDS;
  return check_epilogue(l, AT_CONV2D_ACT);
}

static bool is_int8_or_float(const at_tensor* t) { return is_strided(t, AT_I8) || is_strided(t, AT_F32); }

// What follows the weight, and what is made of sums; `at` is the first attribute behind the window's.
static int check_made(const resolved_insn* l, int64_t columns, int at) {
  const at_tensor* sums = l->src[2];
  if (!is_strided(sums, AT_I32) || sums->rank != 1 || sums->dim[0] != columns || !is_dense(sums, 0))
    return AT_BAD_OPERANDS;
  if (!is_vector(l->src[3], columns) || !is_vector(l->src[4], columns)) return AT_BAD_OPERANDS;
  const double low = at_number(word(l, at + 1)), high = at_number(word(l, at + 2));
  if (!in_range(word(l, at), INT8_MIN, INT8_MAX) || isnan(low) || isnan(high)) return AT_BAD_ATTRIBUTE;
  if (l->dst->dtype == AT_I8 && !(low >= INT8_MIN && low <= high && high <= INT8_MAX)) return AT_BAD_ATTRIBUTE;
  return 0;
}

int at_check_qgemm(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *dst = l->dst;
  if (!is_strided(src, AT_I8) || !is_int8_or_float(dst) || src->rank != dst->rank || src->rank < 1)
    return AT_BAD_OPERANDS;
  const int last = src->rank - 1;
  for (int i = 0; i < last; ++i) {
    if (src->dim[i] != dst->dim[i]) return AT_BAD_OPERANDS;
  }
  if (!is_dense(src, last) || !is_dense(dst, last) || src->dim[last] > AT_MOST_DEPTH) return AT_BAD_OPERANDS;
  if (!is_weight(l->src[1], AT_QUADS, dst->dim[last], 1, src->dim[last], 1, AT_QUAD)) return AT_BAD_OPERANDS;
  return check_made(l, dst->dim[last], AT_QGEMM_ZERO);
}

int at_check_qconv(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *dst = l->dst;
  if (!is_strided(src, AT_I8) || src->rank != 4 || !is_int8_or_float(dst) || dst->rank != 4 || !is_dense(dst, 1))
    return AT_BAD_OPERANDS;
  if (!is_window(l, AT_QCONV2D_STRIDE_H) || !in_range(word(l, AT_QCONV2D_GROUPS), 1, AT_MOST_ATTRIBUTE))
    return AT_BAD_ATTRIBUTE;
  const int64_t high = word(l, AT_QCONV2D_KERNEL_H), wide = word(l, AT_QCONV2D_KERNEL_W),
                groups = word(l, AT_QCONV2D_GROUPS);
  const int64_t taps = high * wide, channels = src->dim[1], columns = dst->dim[1];
  if (src->dim[0] != dst->dim[0] || channels % groups || columns % groups) return AT_BAD_OPERANDS;
  const bool few = l->insn->op == AT_OP_QCONV2D && groups == 1 && channels <= AT_FEW_CHANNELS;
  if (!is_dense(src, 1) && !few) return AT_BAD_OPERANDS;
  if (l->insn->op == AT_OP_QDWCONV2D) {
    if (high > AT_MOST_FILTER_ROWS || taps > AT_MOST_TAPS || groups != channels || columns != channels)
      return AT_BAD_ATTRIBUTE;
    if (!is_filters(l->src[1], AT_I8, channels, taps)) return AT_BAD_OPERANDS;
  } else {
    const int64_t depth = channels / groups;
    if (depth > AT_MOST_DEPTH || taps * depth > AT_MOST_DEPTH) return AT_BAD_ATTRIBUTE;
    if (!is_weight(l->src[1], AT_QUADS, columns, taps, depth, groups, AT_QUAD)) return AT_BAD_OPERANDS;
  }
  return check_made(l, columns, AT_QCONV2D_ZERO);
}

// Whole numbers have a largest, but no mean that is one of them.
int at_check_pool(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *dst = l->dst;
  const bool is_int8 = src->dtype == AT_I8 && word(l, AT_POOL2D_KIND) == AT_POOL_MAX;
  const uint8_t dtype = is_int8 ? AT_I8 : AT_F32;
  if (!is_image_of(src, dtype) || !is_image_of(dst, dtype) || src->dim[0] != dst->dim[0] || src->dim[1] != dst->dim[1])
    return AT_BAD_OPERANDS;
  if (!in_range(word(l, AT_POOL2D_KIND), 0, AT_POOL_COUNT - 1) || !is_window(l, AT_POOL2D_STRIDE_H))
    return AT_BAD_ATTRIBUTE;
  return 0;
}

int at_check_bmm(const resolved_insn* l) {
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

int at_check_attention(const resolved_insn* l) {
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
