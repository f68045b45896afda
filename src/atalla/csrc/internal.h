// What the library's own files share: a loaded program, the context of a run, and what a kernel is called with.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atalla.h"
#include "isa.h"

enum { AT_DIMS = 8, AT_SOURCES = 8, AT_NOTHING = 0xffffffff, AT_LINE = 64 };

// A strided view, as the blob describes it; `root` is its own number where it is its own storage.
typedef struct {
  uint8_t dtype, rank, space, layout;
  uint32_t root;
  int64_t offset;  // elements from the root's beginning
  uint64_t bytes;  // of a root
  int64_t place;   // bytes in its space, or the number of the caller's tensor
  int64_t dim[AT_DIMS], stride[AT_DIMS];
  uint32_t name;
} at_tensor;

typedef struct {
  uint16_t op, sources;
  uint32_t dst, first_source, first_word, words, node, line;
} at_insn;

// What dims are made of in a program that runs with inputs of several sizes; see "symbols.c".
typedef struct {
  const uint8_t *symbols, *nodes, *guards, *patches;
  uint32_t symbol_count, node_count, guard_count, patch_count;
} at_symbols;

// A sound program: nothing in it reaches out of its spaces. It is never written after it was loaded.
struct atalla_blob {
  const uint8_t* bytes;
  size_t size;
  const uint8_t* constants;
  at_tensor* tensors;
  at_insn* insns;
  const uint8_t *operands, *words, *calls, *io, *strings;
  uint32_t tensor_count, insn_count, operand_count, word_count, call_count, input_count, output_count, string_count;
  uint64_t constant_bytes, arena_bytes, state_bytes;
  uint32_t constant_crc;
  const uint8_t* initial;  // rows of what the state holds at first
  uint32_t initial_count;
  at_symbols dynamic;
  uint8_t *own_words, *own_io;  // of a specialised blob: its own copies
};

// Brings `state` to what it holds at first.
void at_reset(const atalla_blob* blob, char* state);

// One thread pool, kept by a context.
typedef struct at_pool at_pool;
typedef void (*at_body)(void* argument, size_t item, unsigned thread);

int at_pool_new(unsigned threads, at_pool** pool);
void at_pool_free(at_pool* pool);
unsigned at_pool_threads(const at_pool* pool);
// Calls `body` once for each item, in any order, from all threads; returns when all are done.
void at_pool_run(at_pool* pool, size_t items, at_body body, void* argument);

// A tensor where it is now.
typedef struct {
  uint8_t dtype, rank;
  int64_t dim[AT_DIMS], stride[AT_DIMS];
  char* data;
} at_view;

// What a kernel is called with.
typedef struct {
  at_view dst;
  at_view src[AT_SOURCES];
  unsigned sources;
  uint32_t present;  // bit i: source i is there
  const int64_t* words;
  unsigned word_count;
  at_pool* pool;
  char* scratch;  // `scratch_bytes` for each thread, aligned to AT_LINE
  size_t scratch_bytes;
} at_call;

// Bytes that were counted in 128 bits, or more than there can be.
static inline size_t at_bytes(unsigned __int128 count) { return count > SIZE_MAX ? SIZE_MAX : (size_t)count; }

typedef int (*at_kernel)(const at_call* call);
typedef size_t (*at_need)(const at_call* call);

// The kernels of one instruction set.
typedef struct {
  const char* name;
  at_kernel run[AT_OP_COUNT];
  at_need scratch[AT_OP_COUNT];  // bytes that one thread needs; NULL for none
} at_kernels;

extern const at_kernels at_kernels_base;
extern const at_kernels at_kernels_avx2;
extern const at_kernels at_kernels_avx512;

// The best instruction set of this processor, or the one of that name; NULL if it has it not.
const at_kernels* at_choose(const char* name);

static inline uint32_t at_u32(const uint8_t* at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t at_u64(const uint8_t* at) { return at_u32(at) | (uint64_t)at_u32(at + 4) << 32; }

static inline size_t at_size(uint8_t dtype) {
  static const uint8_t sizes[AT_DTYPE_COUNT] = AT_DTYPE_SIZES;
  return dtype < AT_DTYPE_COUNT ? sizes[dtype] : 0;
}

static inline double at_number(int64_t word) {
  union {
    int64_t word;
    double number;
  } both = {word};
  return both.number;
}

static inline size_t at_elements(const at_view* view) {
  size_t count = 1;
  for (unsigned i = 0; i < view->rank; ++i) count *= (size_t)view->dim[i];
  return count;
}

// Whether a step's value is a float32, else an int64; of what it is made of: its first and its second operand.
static inline bool at_step_is_float(uint8_t code, bool first, bool second) {
  switch (code) {
    case AT_STEP_INT:
    case AT_STEP_TO_INT:
    case AT_STEP_EQ:
    case AT_STEP_NE:
    case AT_STEP_LT:
    case AT_STEP_LE:
    case AT_STEP_GT:
    case AT_STEP_GE:
    case AT_STEP_AND:
    case AT_STEP_OR:
    case AT_STEP_XOR:
    case AT_STEP_NOT:
    case AT_STEP_IS_NAN:
    case AT_STEP_BIT_NOT:
      return false;
    case AT_STEP_ADD:
    case AT_STEP_SUB:
    case AT_STEP_MUL:
    case AT_STEP_MIN:
    case AT_STEP_MAX:
    case AT_STEP_POW:
    case AT_STEP_NEG:
    case AT_STEP_ABS:
    case AT_STEP_RELU:
    case AT_STEP_SIGN:
    case AT_STEP_REMAINDER:
    case AT_STEP_FLOOR_DIV:
      return first;
    case AT_STEP_WHERE:
      return second;
    default:
      return true;
  }
}
