// What a build with -DATALLA_DEBUG looks at around each instruction; see "debug.c".
#pragma once

#include "internal.h"

enum { AT_POISON = 0xff, AT_CANARY = 0xa5 };  // bytes: every float of 0xff is no number

typedef struct at_debug at_debug;

// Poisons the arena, and marks the last AT_LINE of each thread's scratch, which no kernel may touch.
int at_debug_new(const atalla_blob* blob, char* arena, char* scratch, size_t scratch_bytes, unsigned threads,
                 at_debug** debug);
void at_debug_free(at_debug* debug);

// Poisons what an instruction is the first to write.
void at_debug_before(at_debug* debug, uint32_t insn);

// Whether an instruction changed nothing of the arena but the elements that it writes, and no mark in the scratch; what
// nothing needs any more is poisoned.
bool at_debug_after(at_debug* debug, uint32_t insn);
