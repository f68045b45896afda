// Debug builds: the arena is compared before and after each instruction, and poisoned where it holds nothing.
//
// A kernel that writes beside its tensor is found at once; one that reads beside it, and a plan that assigns the same
// memory twice, show as NaN in what is computed.
#ifdef ATALLA_DEBUG
#include "debug.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"

struct at_debug {
  const atalla_blob* blob;
  char *arena, *before, *scratch;
  size_t scratch_bytes;
  unsigned threads;
  uint8_t* mine;           // of each byte of the arena, 1 where the instruction may write
  uint32_t *first, *last;  // instructions of each root; AT_NOTHING where there are none
};

// Calls `visit` for each tensor that an instruction writes, and with `reads` for those that it reads.
static void each_tensor(at_debug* debug, uint32_t number, bool reads, void (*visit)(at_debug*, uint32_t, uint32_t)) {
  const atalla_blob* blob = debug->blob;
  const at_insn* insn = &blob->insns[number];
  if (insn->dst != AT_NOTHING) visit(debug, number, insn->dst);
  const at_outputs made = at_outputs_of(blob, insn);
  for (uint32_t i = 0; i < made.count; ++i) {
    visit(debug, number, at_operand(blob, made.first + i));
  }
  for (uint32_t i = 0; reads && i < insn->sources; ++i) {
    const uint32_t tensor = at_operand(blob, insn->first_source + i);
    if (tensor != AT_NOTHING) visit(debug, number, tensor);
  }
}

// Poisons a tensor's storage if the instruction is that of its `steps`.
static void poison(at_debug* debug, const uint32_t* steps, uint32_t insn, uint32_t tensor) {
  const uint32_t number = debug->blob->tensors[tensor].root;
  const at_tensor* root = &debug->blob->tensors[number];
  if (root->space == AT_ARENA && steps[number] == insn) memset(debug->arena + root->place, AT_POISON, root->bytes);
}

static void begin(at_debug* debug, uint32_t insn, uint32_t tensor) { poison(debug, debug->first, insn, tensor); }

static void end(at_debug* debug, uint32_t insn, uint32_t tensor) { poison(debug, debug->last, insn, tensor); }

static void mark(at_debug* debug, uint32_t insn, uint32_t number) {
  (void)insn;
  const at_tensor *tensor = &debug->blob->tensors[number], *root = &debug->blob->tensors[tensor->root];
  if (root->space != AT_ARENA) return;
  const size_t size = at_size(tensor->dtype);
  int64_t index[AT_DIMS] = {0};
  for (int i = 0; i < tensor->rank; ++i) {
    if (tensor->dim[i] == 0) return;
  }
  for (int d = 0; d >= 0;) {
    int64_t at = tensor->offset;
    for (int i = 0; i < tensor->rank; ++i) at += index[i] * tensor->stride[i];
    memset(debug->mine + root->place + at * (int64_t)size, 1, size);
    for (d = tensor->rank - 1; d >= 0 && ++index[d] == tensor->dim[d]; --d) index[d] = 0;
  }
}

int at_debug_new(const atalla_blob* blob, char* arena, char* scratch, size_t scratch_bytes, unsigned threads,
                 at_debug** result) {
  at_debug* debug = calloc(1, sizeof *debug);
  if (!debug) return ATALLA_OUT_OF_MEMORY;
  *debug =
      (at_debug){.blob = blob, .arena = arena, .scratch = scratch, .scratch_bytes = scratch_bytes, .threads = threads};
  debug->before = malloc(blob->arena_bytes + 1);
  debug->mine = malloc(blob->arena_bytes + 1);
  debug->first = malloc(2 * sizeof *debug->first * (blob->tensor_count + 1u));
  if (!debug->before || !debug->mine || !debug->first) {
    at_debug_free(debug);
    return ATALLA_OUT_OF_MEMORY;
  }
  debug->last = debug->first + blob->tensor_count;
  at_lives(blob, debug->first, debug->last);
  memset(arena, AT_POISON, blob->arena_bytes);
  for (unsigned i = 0; i < threads; ++i) {
    memset(scratch + (i + 1) * scratch_bytes - AT_LINE, AT_CANARY, AT_LINE);
  }
  *result = debug;
  return ATALLA_OK;
}

void at_debug_free(at_debug* debug) {
  if (!debug) return;
  free(debug->before);
  free(debug->mine);
  free(debug->first);
  free(debug);
}

void at_debug_before(at_debug* debug, uint32_t insn) {
  each_tensor(debug, insn, false, begin);
  memcpy(debug->before, debug->arena, debug->blob->arena_bytes);
}

bool at_debug_after(at_debug* debug, uint32_t insn) {
  memset(debug->mine, 0, debug->blob->arena_bytes);
  each_tensor(debug, insn, false, mark);
  for (uint64_t i = 0; i < debug->blob->arena_bytes; ++i) {
    if (!debug->mine[i] && debug->arena[i] != debug->before[i]) return false;
  }
  for (unsigned i = 0; i < debug->threads; ++i) {
    const char* guard = debug->scratch + (i + 1) * debug->scratch_bytes - AT_LINE;
    for (int k = 0; k < AT_LINE; ++k) {
      if ((uint8_t)guard[k] != AT_CANARY) return false;
    }
  }
  each_tensor(debug, insn, true, end);
  return true;
}
#else
typedef int at_no_debug;  // a file needs a declaration
#endif
