// What checks of instructions are made of: the instruction that is looked at, and what tensors may be asked.
#pragma once

#include "check.h"

typedef struct {
  const atalla_blob* blob;
  const at_insn* insn;
  const at_tensor *dst, *src[AT_SOURCES];
} resolved_insn;

static inline int64_t word(const resolved_insn* l, int number) {
  return (int64_t)at_u64(l->blob->words + 8 * ((size_t)l->insn->first_word + (size_t)number));
}

static inline bool in_range(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

static inline bool same_shape(const at_tensor* a, const at_tensor* b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; ++i) {
    if (a->dim[i] != b->dim[i]) return false;
  }
  return true;
}

static inline bool is_strided(const at_tensor* t, uint8_t dtype) {
  return t->layout == AT_STRIDED && t->dtype == dtype;
}

// One step in a dim is one element, or the dim has but one.
static inline bool is_dense(const at_tensor* t, int dim) { return t->stride[dim] == 1 || t->dim[dim] <= 1; }

static inline bool is_contiguous(const at_tensor* t) {
  int64_t step = 1;
  for (int i = t->rank; i-- > 0;) {
    if (t->dim[i] > 1 && t->stride[i] != step) return false;
    step *= t->dim[i] > 1 ? t->dim[i] : 1;
  }
  return true;
}

static inline bool is_float(uint8_t dtype) {
  return dtype == AT_F32 || dtype == AT_F64 || dtype == AT_F16 || dtype == AT_BF16;
}

// NCHW by name, channels innermost.
static inline bool is_image_of(const at_tensor* t, uint8_t dtype) {
  return is_strided(t, dtype) && t->rank == 4 && is_dense(t, 1);
}

static inline bool is_image(const at_tensor* t) { return is_image_of(t, AT_F32); }

static inline bool is_vector(const at_tensor* t, int64_t count) {
  return is_strided(t, AT_F32) && t->rank == 1 && t->dim[0] == count && is_dense(t, 0);
}

static inline bool is_reduced(uint8_t dtype) {
  return dtype == AT_F32 || dtype == AT_I64 || dtype == AT_I32 || dtype == AT_BOOL;
}

// What the operations' own files give; 0 or a verdict each.
int at_check_gemm(const resolved_insn* l);
int at_check_conv(const resolved_insn* l);
int at_check_qgemm(const resolved_insn* l);
int at_check_qconv(const resolved_insn* l);
int at_check_pool(const resolved_insn* l);
int at_check_bmm(const resolved_insn* l);
int at_check_attention(const resolved_insn* l);
int at_check_ew(const resolved_insn* l);
int at_check_gather(const resolved_insn* l);
int at_check_reduce(const resolved_insn* l);
int at_check_softmax(const resolved_insn* l);
int at_check_norm(const resolved_insn* l);
int at_check_cumsum(const resolved_insn* l);
int at_check_resize(const resolved_insn* l);
int at_check_scatter(const resolved_insn* l);
int at_check_sample(const resolved_insn* l);
