// What must hold of all instructions together: what is read was written, and what is needed is not overwritten.
#include <stdlib.h>

#include "check.h"

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

static int write_one(const at_tensor* t, at_life* lives, uint32_t step) {
  if (t->space == AT_INPUT || t->space == AT_CONST || !is_injective(t)) return AT_BAD_WRITE;
  at_life* l = &lives[t->root];
  if (l->first == AT_NOTHING) l->first = step;
  l->last = step;
  return 0;
}

static int read_one(const at_tensor* t, at_life* lives, uint32_t step) {
  const bool is_there = t->space == AT_INPUT || t->space == AT_CONST || t->space == AT_STATE;
  if (!is_there && lives[t->root].first == AT_NOTHING) return AT_BAD_READ;
  lives[t->root].last = step;
  return 0;
}

static int follow(const atalla_blob* blob, const at_insn* insn, at_outputs made, uint32_t step, at_life* lives) {
  if (insn->dst != AT_NOTHING) lives[blob->tensors[insn->dst].root].maker = step;
  for (uint32_t k = 0; k < made.count; ++k) {
    lives[blob->tensors[at_operand(blob, made.first + k)].root].maker = step;
  }
  for (unsigned i = 0; i < insn->sources; ++i) {
    const uint32_t number = at_operand(blob, insn->first_source + i);
    if (number == AT_NOTHING) continue;
    const at_tensor* t = &blob->tensors[number];
    const bool in_place = insn->op == AT_OP_SCATTER && i == 0 && number == insn->dst && t->space == AT_STATE;
    if (lives[t->root].maker == step && !in_place) return AT_BAD_OVERLAP;
    const int fault = read_one(t, lives, step);
    if (fault) return fault;
  }
  if (insn->dst != AT_NOTHING) return write_one(&blob->tensors[insn->dst], lives, step);
  for (uint32_t k = 0; k < made.count; ++k) {
    const int fault = write_one(&blob->tensors[at_operand(blob, made.first + k)], lives, step);
    if (fault) return fault;
  }
  return 0;
}

int at_check_flow(const atalla_blob* blob) {
  at_life* lives = malloc((blob->tensor_count ? blob->tensor_count : 1) * sizeof *lives);
  if (!lives) return ATALLA_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < blob->tensor_count; ++i) lives[i] = (at_life){AT_NOTHING, 0, AT_NOTHING};
  int fault = 0;
  uint64_t outputs = 0;
  for (uint32_t i = 0; i < blob->insn_count && !fault; ++i) {
    const at_outputs made = at_outputs_of(blob, &blob->insns[i]);
    outputs += made.count;  // a call that many instructions make would take as long as all of its outputs each time
    fault = outputs > blob->operand_count ? AT_BAD_LISTS : follow(blob, &blob->insns[i], made, i, lives);
  }
  for (uint32_t i = 0; i < blob->tensor_count && !fault; ++i) {
    const at_tensor* t = &blob->tensors[i];
    if (t->root == i && t->space == AT_OUTPUT && lives[i].first == AT_NOTHING) fault = AT_BAD_READ;
  }
  if (!fault) fault = at_check_overlap(blob, lives, AT_ARENA);
  if (!fault) fault = at_check_overlap(blob, lives, AT_STATE);
  free(lives);
  return fault;
}

static void touch(const atalla_blob* blob, uint32_t number, uint32_t step, uint32_t* first, uint32_t* last) {
  if (number == AT_NOTHING) return;
  const uint32_t root = blob->tensors[number].root;
  if (first[root] == AT_NOTHING) first[root] = step;
  last[root] = step;
}

void at_lives(const atalla_blob* blob, uint32_t* first, uint32_t* last) {
  for (uint32_t i = 0; i < blob->tensor_count; ++i) first[i] = last[i] = AT_NOTHING;
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const at_insn* insn = &blob->insns[i];
    const at_outputs made = at_outputs_of(blob, insn);
    touch(blob, insn->dst, i, first, last);
    for (unsigned k = 0; k < insn->sources; ++k) {
      touch(blob, at_operand(blob, insn->first_source + k), i, first, last);
    }
    for (uint32_t k = 0; k < made.count; ++k) {
      touch(blob, at_operand(blob, made.first + k), i, first, last);
    }
  }
}
