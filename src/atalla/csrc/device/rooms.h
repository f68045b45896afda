// Rooms: how much of the scratchpads an instruction uses, and how it is cut for that.
//
// Tiles are cut for a room of a scratchpad: 32 KiB, and what lies above it in steps of a half, up to what there is; and
// they are run in as much room, or in two or four times as much, so that several are there at once. Each is tried in
// simulated time, and the fastest is taken. A larger scratchpad has all rooms of a smaller one, so it is never slower.
// An instruction begins when the one before it is done, so that what is best for one is best for all.
#pragma once

#include "product.h"

typedef struct {
  size_t cut, room;  // bytes that tiles are cut for, and in which they are run; 0 where nothing fits
  uint64_t cycles;
  at_plan plan;  // of a product
  bool is_ordered;
} at_choice;

// Begins an instruction at a time, with empty scratchpads, of which `room` bytes each are used.
void at_begin_instruction(at_device* device, uint64_t begin, size_t room, bool is_ordered, atalla_counters* counters);

// Finds the fastest way, without data.
void at_try_product(at_device* device, uint16_t op, const at_call* call, at_choice* best);

// The same of what is no product; returns bytes of the smallest room that would do.
size_t at_try_tiles(at_device* device, uint16_t op, const at_call* call, at_choice* best);
