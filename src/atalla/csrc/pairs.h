// Which two instructions run in one pass; see "pairs.c".
#pragma once

#include "internal.h"

// Whether an instruction and the next are a pair; `calls` are those of all instructions, but for scratch.
bool at_is_pair(const atalla_blob* blob, uint32_t number, const at_call* calls, unsigned threads);
