// What must hold of GATHER and SCATTER, and of what goes along dims: REDUCE, SOFTMAX, NORM, CUMSUM.
#include <math.h>

#include "check_parts.h"

int at_check_gather(const resolved_insn* l) {
  const at_tensor *table = l->src[0], *index = l->src[1], *dst = l->dst;
  if (table->layout != AT_STRIDED || table->dtype != dst->dtype || table->rank < 1) return AT_BAD_OPERANDS;
  if (index->dtype != AT_I64 && index->dtype != AT_I32 && index->dtype != AT_U8) return AT_BAD_OPERANDS;
  if (dst->rank != index->rank + table->rank - 1 || !is_contiguous(table) || !is_contiguous(dst))
    return AT_BAD_OPERANDS;
  for (int i = 0; i < dst->rank; ++i) {
    if (dst->dim[i] != (i < index->rank ? index->dim[i] : table->dim[i - index->rank + 1])) return AT_BAD_OPERANDS;
  }
  return 0;
}

int at_check_scatter(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *index = l->src[1], *update = l->src[2], *dst = l->dst;
  if (src->layout != AT_STRIDED || update->layout != AT_STRIDED) return AT_BAD_OPERANDS;
  if (index->dtype != AT_I64 && index->dtype != AT_I32) return AT_BAD_OPERANDS;
  if (src->dtype != dst->dtype || update->dtype != dst->dtype || !same_shape(src, dst) || dst->rank < 1)
    return AT_BAD_OPERANDS;
  if (update->rank != index->rank + dst->rank - 1 || !is_contiguous(update) || !is_contiguous(dst))
    return AT_BAD_OPERANDS;
  for (int i = 0; i < update->rank; ++i) {
    if (update->dim[i] != (i < index->rank ? index->dim[i] : dst->dim[i - index->rank + 1])) return AT_BAD_OPERANDS;
  }
  const int64_t kind = word(l, AT_SCATTER_KIND);
  if (!in_range(kind, 0, AT_SCATTER_COUNT - 1)) return AT_BAD_ATTRIBUTE;
  const bool computes = dst->dtype == AT_F32 || dst->dtype == AT_I64 || dst->dtype == AT_I32;
  return kind == AT_SCATTER_SET || computes ? 0 : AT_BAD_OPERANDS;
}

int at_check_reduce(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *dst = l->dst;
  const int64_t kind = word(l, AT_REDUCE_KIND), dims = word(l, AT_REDUCE_DIMS);
  if (!in_range(kind, 0, AT_REDUCE_COUNT - 1) || !in_range(dims, 0, ((int64_t)1 << src->rank) - 1))
    return AT_BAD_ATTRIBUTE;
  if (src->layout != AT_STRIDED || src->rank != dst->rank) return AT_BAD_OPERANDS;
  if (!is_reduced(src->dtype) && (src->dtype != AT_I8 || kind != AT_REDUCE_SUM)) return AT_BAD_OPERANDS;
  for (int i = 0; i < src->rank; ++i) {
    if (dst->dim[i] != (dims >> i & 1 ? 1 : src->dim[i])) return AT_BAD_OPERANDS;
  }
  uint8_t made = src->dtype;
  if (kind == AT_REDUCE_ALL || kind == AT_REDUCE_ANY) made = AT_BOOL;
  const bool middle = kind == AT_REDUCE_MEDIAN;
  const bool places = kind == AT_REDUCE_ARGMAX || kind == AT_REDUCE_ARGMIN;
  if (places) made = AT_I64;
  if ((kind == AT_REDUCE_SUM || kind == AT_REDUCE_PROD) && src->dtype != AT_F32) made = AT_I64;
  if ((kind == AT_REDUCE_MEAN || kind == AT_REDUCE_VAR) && src->dtype != AT_F32) return AT_BAD_OPERANDS;
  if ((places || middle) && (dims == 0 || (dims & (dims - 1)))) return AT_BAD_ATTRIBUTE;
  for (int i = 0; i < src->rank && middle; ++i) {
    if (src->dim[i] == 0) return AT_BAD_OPERANDS;
  }
  if (isnan(at_number(word(l, AT_REDUCE_CORRECTION)))) return AT_BAD_ATTRIBUTE;
  return dst->dtype == made ? 0 : AT_BAD_OPERANDS;
}

int at_check_softmax(const resolved_insn* l) {
  const at_tensor* src = l->src[0];
  if (!is_strided(src, AT_F32) || !is_strided(l->dst, AT_F32) || !same_shape(src, l->dst)) return AT_BAD_OPERANDS;
  if (!in_range(word(l, AT_SOFTMAX_AXIS), 0, src->rank - 1) || !in_range(word(l, AT_SOFTMAX_LOG), 0, 1))
    return AT_BAD_ATTRIBUTE;
  return 0;
}

int at_check_norm(const resolved_insn* l) {
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

int at_check_cumsum(const resolved_insn* l) {
  const at_tensor* src = l->src[0];
  if (src->layout != AT_STRIDED || !is_reduced(src->dtype) || !same_shape(src, l->dst)) return AT_BAD_OPERANDS;
  if (l->dst->dtype != AT_F32 && (l->dst->dtype != AT_I64 || src->dtype == AT_F32)) return AT_BAD_OPERANDS;
  return in_range(word(l, AT_CUMSUM_AXIS), 0, src->rank - 1) ? 0 : AT_BAD_ATTRIBUTE;
}
