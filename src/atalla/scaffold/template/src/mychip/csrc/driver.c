// The driver: runs an opened blob by small C kernels. REPLACE what is between the lines marked CHIP by calls of yours.
#include <stdlib.h>
#include <string.h>

#include "mychip.h"

struct mychip_program {
  mychip_blob blob;
  void* bytes;    // of the blob
  float* memory;  // CHIP: a block of the chip's own memory, from your driver's allocator
};

const char* mychip_open(const void* bytes, size_t size, mychip_program** opened) {
  mychip_program* program = calloc(1, sizeof *program);
  if (!program) return "out of memory";
  program->bytes = malloc(size ? size : 1);
  const char* why = "out of memory";
  if (program->bytes) {
    memcpy(program->bytes, bytes, size);
    why = mychip_read_blob(program->bytes, size, &program->blob);
  }
  if (!why) {
    program->memory = calloc((size_t)program->blob.memory + 1, sizeof(float));
    if (!program->memory) why = "out of memory";
  }
  if (why) {
    mychip_close(program);
    return why;
  }
  // CHIP: load the constants once, and the instructions in your own encoding.
  if (program->blob.constants) memcpy(program->memory, program->blob.constant, 4 * (size_t)program->blob.constants);
  *opened = program;
  return NULL;
}

void mychip_close(mychip_program* program) {
  if (!program) return;
  free(program->memory);
  free(program->bytes);
  free(program);
}

static const mychip_tensor* input_of(const mychip_program* program, uint32_t i) {
  return &program->blob.tensor[program->blob.input[i]];
}

static const mychip_tensor* output_of(const mychip_program* program, uint32_t i) {
  return &program->blob.tensor[program->blob.output[i]];
}

static size_t floats(const mychip_tensor* t) { return (size_t)t->rows * t->columns; }

const mychip_blob* mychip_describe(const mychip_program* program) { return &program->blob; }

size_t mychip_input_floats(const mychip_program* program, uint32_t i) { return floats(input_of(program, i)); }

size_t mychip_output_floats(const mychip_program* program, uint32_t i) { return floats(output_of(program, i)); }

// ---- CHIP ----------------------------------------------------------------------------------------------------------
// DMA to and from the chip, and a start with a wait for its end. The kernels define what the chip computes: sums go by
// rising k, each operation is rounded (no fused multiply-add), and simulator.py computes the same bits.

void mychip_write(mychip_program* program, uint32_t i, const float* from) {
  const mychip_tensor* t = input_of(program, i);
  memcpy(program->memory + t->place, from, 4 * floats(t));
}

void mychip_read(const mychip_program* program, uint32_t i, float* to) {
  const mychip_tensor* t = output_of(program, i);
  memcpy(to, program->memory + t->place, 4 * floats(t));
}

// result(m, n) = x(m, k) · weight(n, k)ᵀ + bias(n), which may be absent
static void linear(float* result, const float* x, const float* weight, const float* bias, size_t m, size_t n,
                   size_t k) {
  for (size_t row = 0; row < m; ++row)
    for (size_t column = 0; column < n; ++column) {
      float sum = bias ? bias[column] : 0.0f;
      for (size_t i = 0; i < k; ++i) sum += x[row * k + i] * weight[column * k + i];
      result[row * n + column] = sum;
    }
}

static void run(float* memory, const mychip_tensor* tensor, const mychip_instruction* one) {
  const mychip_tensor *r = &tensor[one->result], *x = &tensor[one->sources[0]];
  float* result = memory + r->place;
  const float* a = memory + x->place;
  const float* b = one->sources[1] == MYCHIP_NONE ? NULL : memory + tensor[one->sources[1]].place;
  const float* c = one->sources[2] == MYCHIP_NONE ? NULL : memory + tensor[one->sources[2]].place;
  const size_t count = floats(r);
  switch (one->op) {
    case MYCHIP_LINEAR:
      linear(result, a, b, c, r->rows, r->columns, x->columns);
      break;
    case MYCHIP_RELU:
      for (size_t i = 0; i < count; ++i) result[i] = a[i] < 0.0f ? 0.0f : a[i];
      break;
    case MYCHIP_ADD:
      for (size_t i = 0; i < count; ++i) result[i] = a[i] + b[i];
      break;
    case MYCHIP_MUL:
      for (size_t i = 0; i < count; ++i) result[i] = a[i] * b[i];
      break;
  }
}

void mychip_run(mychip_program* program) {
  const mychip_blob* blob = &program->blob;
  for (uint32_t i = 0; i < blob->instructions; ++i) run(program->memory, blob->tensor, &blob->instruction[i]);
}
// --------------------------------------------------------------------------------------------------------------------
