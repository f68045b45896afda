// What the library's own files share: a loaded program, the context of a run, and what a kernel is called with.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atalla.h"
#include "isa.h"

// Says in the caller's structure, where there is one, what failed, and returns the status.
int at_fail(atalla_error* error, int status, const char* text);

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

// The row of an input, or behind these of an output.
static inline const uint8_t* at_output_row(const atalla_blob* blob, size_t number) {
  return blob->io + AT_OUTPUT_BYTES * number;
}

// Where a call of the host has its outputs among the operands; other operations have none there.
typedef struct {
  uint32_t first, count;
} at_outputs;

at_outputs at_outputs_of(const atalla_blob* blob, const at_insn* insn);

// Nanoseconds of a clock that is never set back.
uint64_t at_now(void);

// Brings `state` to what it holds at first.
void at_reset(const atalla_blob* blob, char* state);

// One thread pool, kept by a context.
typedef struct at_pool at_pool;
typedef void (*at_body)(void* argument, size_t item, unsigned thread);

int at_pool_new(unsigned threads, at_pool** pool);
void at_pool_free(at_pool* pool);
unsigned at_pool_threads(const at_pool* pool);
// How much work the next run is, see "work.c": threads that sleep are woken for what takes longer than that.
void at_pool_expect(at_pool* pool, size_t work);
// Wakes those that sleep for runs that together are so much work, if that is worth it.
void at_pool_wake(at_pool* pool, size_t work);
// Calls `body` once for each item, in any order, from all threads; returns when all are done.
void at_pool_run(at_pool* pool, size_t items, at_body body, void* argument);

// A tensor where it is now.
typedef struct {
  uint8_t dtype, rank;
  int64_t dim[AT_DIMS], stride[AT_DIMS];
  char* data;
} at_view;

// What a kernel is called with.
typedef struct at_call at_call;
typedef int (*at_kernel)(const at_call* call);
typedef size_t (*at_need)(const at_call* call);

struct at_call {
  at_view dst;
  at_view src[AT_SOURCES];
  unsigned sources;
  uint32_t present;  // bit i: source i is there
  const int64_t* words;
  unsigned word_count;
  size_t work;
  at_pool* pool;
  char* scratch;  // `scratch_bytes` for each thread, aligned to AT_LINE
  size_t scratch_bytes;
  at_kernel kernel;
  const at_call* behind;  // the next instruction's, where it is computed in the same pass; see "pairs.c"
};

// What an instruction costs: about as many multiplications.
size_t at_work(uint16_t op, const at_call* call);

// Pixels a side of Winograd's tiles, of the image and of what they become, and the stride between the latter's pixels.
typedef struct {
  size_t edge, side, stride;
} at_wino_tile;

// By how many products a tile takes; see WINOGRAD_TILES in "isa/types.py".
static inline at_wino_tile at_wino_tile_of(int64_t places) {
  if (places == 16) return (at_wino_tile){4, 2, 1};
  return places == 25 ? (at_wino_tile){5, 2, 2} : (at_wino_tile){6, 4, 1};
}

// Bytes that were counted in 128 bits, or more than there can be.
static inline size_t at_bytes(unsigned __int128 count) { return count > SIZE_MAX ? SIZE_MAX : (size_t)count; }

// What an instruction set brings for the simulated device; see "device/units.h".
typedef struct at_device_kernels at_device_kernels;

// The kernels of one instruction set; those that are NULL are those of the set beneath it.
typedef struct {
  const char* name;
  at_kernel run[AT_OP_COUNT];
  at_need scratch[AT_OP_COUNT];  // bytes that one thread needs; NULL for none
  at_kernel pair;                // CONV2D and the DWCONV2D behind it
  at_need pair_scratch;
  const at_device_kernels* device;
} at_kernels;

extern const at_kernels at_kernels_base;
extern const at_kernels at_kernels_avx2;
extern const at_kernels at_kernels_avx512;
extern const at_kernels at_kernels_vnni;
extern const at_kernels at_kernels_amx;

// The best instruction set of this processor, or the one of that name; NULL if it has it not.
const at_kernels* at_choose(const char* name);

// The chosen set, or the next one beneath it that has a kernel of an operation.
const at_kernels* at_kernels_with(const at_kernels* chosen, uint16_t op);

static inline uint16_t at_u16(const uint8_t* at) { return (uint16_t)(at[0] | at[1] << 8); }

static inline uint32_t at_u32(const uint8_t* at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t at_u64(const uint8_t* at) { return at_u32(at) | (uint64_t)at_u32(at + 4) << 32; }

// The number of a tensor, or AT_NOTHING.
static inline uint32_t at_operand(const atalla_blob* blob, size_t at) { return at_u32(blob->operands + 4 * at); }

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

static inline int64_t at_word(double number) {
  union {
    double number;
    int64_t word;
  } both = {number};
  return both.word;
}

static inline size_t at_elements(const at_view* view) {
  size_t count = 1;
  for (unsigned i = 0; i < view->rank; ++i) count *= (size_t)view->dim[i];
  return count;
}

// A step of EW, as it stands in a word; `a` is the number of a value, or a constant's bits.
typedef struct {
  uint8_t code, b, c, zero;
  uint32_t a;
} at_step;

static inline at_step at_step_of(int64_t word) {
  const uint64_t bits = (uint64_t)word;
  return (at_step){.code = (uint8_t)(bits >> 8 * AT_STEP_AT_CODE),
                   .b = (uint8_t)(bits >> 8 * AT_STEP_AT_B),
                   .c = (uint8_t)(bits >> 8 * AT_STEP_AT_C),
                   .zero = (uint8_t)(bits >> 8 * AT_STEP_AT_ZERO),
                   .a = (uint32_t)(bits >> 8 * AT_STEP_AT_A)};
}

// Kinds of a step's operands, and of its value: 'f' a float32, 'w' an int64, 's' either, the same wherever it stands.
typedef struct {
  char operands[4], value;
} at_step_spec;

static inline const at_step_spec* at_step_spec_of(uint8_t code) {
  static const at_step_spec specs[AT_STEP_COUNT] = AT_STEP_SPECS;
  return &specs[code];
}

// Whether a step's value is a float32, else an int64; of what it is made of: its first and its second operand.
static inline bool at_step_is_float(uint8_t code, bool first, bool second) {
  const at_step_spec* spec = at_step_spec_of(code);
  return spec->value == 's' ? (spec->operands[1] ? second : first) : spec->value == 'f';
}
