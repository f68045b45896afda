// Transfers: what one micro-operation of the DMA moves between memory and a scratchpad, and how long that takes.
#pragma once

#include "device.h"

// A box of elements, in memory and in a scratchpad; strides count elements. Where `rounds`, float32 becomes bfloat16.
enum { AT_BOX_DIMS = AT_DIMS + 1 };  // those of a tensor, and runs

typedef struct {
  unsigned rank;
  int64_t dim[AT_BOX_DIMS], memory[AT_BOX_DIMS], scratchpad[AT_BOX_DIMS];
  size_t size;  // bytes of an element in memory
  bool rounds;
} at_box;

// What it costs. A descriptor moves runs of neighbours along three dims; each run takes whole cycles.
typedef struct {
  uint64_t cycles, bytes, descriptors;
} at_cost;

at_cost at_box_cost(const atalla_hardware* hardware, const at_box* box);

static inline void at_add_cost(at_cost* sum, at_cost more) {
  sum->cycles += more.cycles;
  sum->bytes += more.bytes;
  sum->descriptors += more.descriptors;
}

void at_box_load(const at_box* box, const char* memory, char* scratchpad);
void at_box_store(const at_box* box, const char* scratchpad, char* memory);

// Issues a load of that cost into a region, or a store out of one.
void at_load(at_device* device, at_cost cost, at_region* to);
void at_store(at_device* device, at_cost cost, at_region* from);
