// What must hold of each instruction, and of all of them together; "check.c", "flow.c", "overlap.c".
#pragma once

#include "internal.h"

// Whether a packed constant has the form of its layout.
bool at_packed_fits(const at_tensor* tensor);

// Element types, shapes, strides, layouts and attributes that an operation takes; 0 or a verdict.
int at_check_instruction(const atalla_blob* blob, const at_insn* insn);

// A storage: instructions from its first write to its last use; AT_NOTHING before the first write. The last that wrote
// it, or AT_NOTHING.
typedef struct {
  uint32_t first, last, maker;
} at_life;

// Storages of a space that are alive at once do not share memory; 0 or a verdict.
int at_check_overlap(const atalla_blob* blob, const at_life* lives, uint8_t space);

// Nothing is read before it is written, nothing alive is overwritten; 0 or a verdict.
int at_check_flow(const atalla_blob* blob);

// First and last instruction that touches each storage, by the number of its root; AT_NOTHING where none does.
void at_lives(const atalla_blob* blob, uint32_t* first, uint32_t* last);

// A verdict in words.
const char* at_verdict(int verdict);
