// The instructions of a program, one by one, each that is no product in tiles.
#pragma once

#include "check_calls.h"

typedef struct {
  const atalla_blob* blob;
  char *arena, *state, **inputs, **outputs;
} memory;

static inline char* read_bytes(FILE* file, size_t* size) {
  uint64_t bytes;
  if (fread(&bytes, sizeof bytes, 1, file) != 1) exit(2);
  char* found = aligned_alloc(AT_PAGE, (bytes + AT_PAGE) / AT_PAGE * AT_PAGE);
  if (fread(found, 1, bytes, file) != bytes) exit(2);
  *size = bytes;
  return found;
}

// Where a tensor's storage is.
static inline char* home(const memory* m, const at_tensor* root) {
  if (root->space == AT_ARENA) return m->arena + root->place;
  if (root->space == AT_STATE) return m->state + root->place;
  if (root->space == AT_CONST) return (char*)(uintptr_t)m->blob->constants + root->place;
  return (root->space == AT_INPUT ? m->inputs : m->outputs)[root->place];
}

static inline at_view view_of(const memory* m, uint32_t number) {
  const at_tensor* tensor = &m->blob->tensors[number];
  at_view view = {.dtype = tensor->dtype, .rank = tensor->rank};
  memcpy(view.dim, tensor->dim, sizeof view.dim);
  memcpy(view.stride, tensor->stride, sizeof view.stride);
  view.data = home(m, &m->blob->tensors[tensor->root]) + tensor->offset * (int64_t)at_size(tensor->dtype);
  return view;
}

static inline at_call call_of(const memory* m, const at_insn* insn) {
  at_call call = {.dst = view_of(m, insn->dst), .sources = insn->sources, .word_count = insn->words};
  call.words = (const int64_t*)(const void*)(m->blob->words + 8 * (size_t)insn->first_word);
  for (unsigned i = 0; i < insn->sources; ++i) {
    const uint32_t number = at_u32(m->blob->operands + 4 * ((size_t)insn->first_source + i));
    if (number == AT_NOTHING) continue;
    call.present |= 1u << i;
    call.src[i] = view_of(m, number);
  }
  return call;
}

static inline int is_product(uint16_t op) {
  return op == AT_OP_GEMM || op == AT_OP_CONV2D || op == AT_OP_CONV2D_WINO || op == AT_OP_QGEMM ||
         op == AT_OP_QCONV2D || op == AT_OP_BGEMM || op == AT_OP_BCONV2D;
}

static inline void run_program(checking* c, const memory* m) {
  for (uint32_t i = 0; i < m->blob->insn_count; ++i) {
    const at_insn* insn = &m->blob->insns[i];
    if (insn->op == AT_OP_END || insn->op == AT_OP_CALL_HOST) continue;
    at_call call = call_of(m, insn);
    const at_tensor* root = &m->blob->tensors[m->blob->tensors[insn->dst].root];
    if (is_product(insn->op)) {
      at_room room = {SIZE_MAX, AT_LINE};
      at_tiling t;
      if (at_cut(insn->op, &call, &room, &t) != ATALLA_BAD_ARGUMENT && at_elements(&call.dst))
        stop(c, "is a product", insn->op, &room, 0);
      if (at_elements(&call.dst) && run_kernel(c, insn->op, &call) != ATALLA_OK) stop(c, "fails", insn->op, &room, 0);
    } else {
      check_call(c, insn->op, &call, home(m, root), root->bytes, AT_LINE);
    }
  }
}

// A file of a blob and its inputs, each behind its size. Outputs of calls of the host are zeros.
static inline void check_program(checking* c, const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) exit(2);
  size_t size;
  char* bytes = read_bytes(file, &size);
  atalla_blob* blob;
  if (atalla_open_trusted(bytes, size, &blob, NULL) != ATALLA_OK) exit(2);
  memory m = {.blob = blob, .arena = calloc(blob->arena_bytes + 1, 1), .state = calloc(blob->state_bytes + 1, 1)};
  m.inputs = calloc(blob->input_count + 1u, sizeof *m.inputs);
  m.outputs = calloc(blob->output_count + 1u, sizeof *m.outputs);
  at_reset(blob, m.state);
  for (uint32_t i = 0; i < blob->input_count; ++i) m.inputs[i] = read_bytes(file, &size);
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const at_tensor* t = &blob->tensors[i];
    if (t->root == i && t->space == AT_OUTPUT) m.outputs[t->place] = calloc(t->bytes + 1, 1);
  }
  run_program(c, &m);
  for (uint32_t i = 0; i < blob->input_count; ++i) free(m.inputs[i]);
  for (uint32_t i = 0; i < blob->output_count; ++i) free(m.outputs[i]);
  free(m.inputs);
  free(m.outputs);
  free(m.arena);
  free(m.state);
  atalla_close(blob);
  free(bytes);
  fclose(file);
}
