// The driver's interface: open a blob, write inputs to the chip's memory, run, read outputs from it.
//
// Python calls it through ctypes (kernels.py), ExecuTorch through delegate.cpp. A function that can fail returns NULL
// where all went well, else what is wrong, as a text that lives as long as the library.
#ifndef MYCHIP_H
#define MYCHIP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The format of a blob; blob.py says the same in Python, and a test compares what the two refuse.
#define MYCHIP_MAGIC "MYCHIP__"
#define MYCHIP_VERSION 1u
#define MYCHIP_MEMORY_FLOATS (1u << 26)  // 256 MiB: what the chip has
#define MYCHIP_NONE 0xFFFFFFFFu          // no operand

enum { MYCHIP_LINEAR = 1, MYCHIP_RELU = 2, MYCHIP_ADD = 3, MYCHIP_MUL = 4 };

// All that the chip knows is matrices of float32: (2, 3, 4) is one of 6 rows and 4 columns.
typedef struct {
  uint32_t rows, columns, place;  // the place is in floats, from where the chip's memory begins
} mychip_tensor;

typedef struct {
  uint32_t op, result, sources[3];  // numbers of tensors
} mychip_instruction;

typedef struct {
  uint32_t tensors, instructions, inputs, outputs;  // how many
  uint32_t constants, memory;                       // floats: the constants come first in memory
  const mychip_tensor* tensor;
  const mychip_instruction* instruction;
  const uint32_t *input, *output;  // numbers of tensors
  const float* constant;
} mychip_blob;

// Reads a blob where it lies, at a multiple of 4; nothing of it is believed before it was looked at (blob.c).
const char* mychip_read_blob(const void* bytes, size_t size, mychip_blob* blob);

typedef struct mychip_program mychip_program;

// Copies what it needs of the bytes. Threads may use several programs, but one program only in turns.
const char* mychip_open(const void* bytes, size_t size, mychip_program** program);
void mychip_close(mychip_program* program);

const mychip_blob* mychip_describe(const mychip_program* program);
size_t mychip_input_floats(const mychip_program* program, uint32_t input);
size_t mychip_output_floats(const mychip_program* program, uint32_t output);

void mychip_write(mychip_program* program, uint32_t input, const float* from);
void mychip_run(mychip_program* program);
void mychip_read(const mychip_program* program, uint32_t output, float* to);

#ifdef __cplusplus
}
#endif

#endif
