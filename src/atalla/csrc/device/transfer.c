// Transfers: see "transfer.h".
#include "transfer.h"

#include <string.h>

#include "timeline.h"

enum { DESCRIBED = 3 };  // dims of runs that one descriptor holds

// The same box with its dims from the outermost in memory to the innermost, neighbours joined; the innermost is a run.
static at_box normal(const at_box* box) {
  at_box made = {.size = box->size, .rounds = box->rounds};
  for (unsigned i = 0; i < box->rank; ++i) {
    if (box->dim[i] == 1) continue;
    unsigned at = made.rank++;
    const int64_t step = box->memory[i] < 0 ? -box->memory[i] : box->memory[i];
    for (; at > 0; --at) {
      const int64_t before = made.memory[at - 1] < 0 ? -made.memory[at - 1] : made.memory[at - 1];
      if (before >= step) break;
      made.dim[at] = made.dim[at - 1];
      made.memory[at] = made.memory[at - 1];
      made.scratchpad[at] = made.scratchpad[at - 1];
    }
    made.dim[at] = box->dim[i];
    made.memory[at] = box->memory[i];
    made.scratchpad[at] = box->scratchpad[i];
  }
  if (!made.rank || made.memory[made.rank - 1] != 1 || made.scratchpad[made.rank - 1] != 1) {
    made.dim[made.rank] = made.memory[made.rank] = made.scratchpad[made.rank] = 1;
    ++made.rank;
  }
  unsigned kept = 0;
  for (unsigned i = 1; i < made.rank; ++i) {
    if (made.memory[kept] == made.memory[i] * made.dim[i] &&
        made.scratchpad[kept] == made.scratchpad[i] * made.dim[i]) {
      made.dim[kept] *= made.dim[i];
    } else {
      ++kept;
      made.dim[kept] = made.dim[i];
    }
    made.memory[kept] = made.memory[i];
    made.scratchpad[kept] = made.scratchpad[i];
  }
  made.rank = kept + 1;
  return made;
}

at_cost at_box_cost(const atalla_hardware* hardware, const at_box* box) {
  for (unsigned i = 0; i < box->rank; ++i) {
    if (box->dim[i] <= 0) return (at_cost){0, 0, 0};
  }
  const at_box made = normal(box);
  const unsigned last = made.rank - 1;
  uint64_t runs = 1, descriptors = 1;
  for (unsigned i = 0; i < last; ++i) {
    runs *= (uint64_t)made.dim[i];
    if (i + DESCRIBED < last) descriptors *= (uint64_t)made.dim[i];
  }
  const uint64_t run = (uint64_t)made.dim[last] * made.size, wide = hardware->dma_bytes_per_cycle;
  return (at_cost){descriptors * hardware->dma_latency_cycles + runs * ((run + wide - 1) / wide), runs * run,
                   descriptors};
}

// float32 to bfloat16: half to even, NaN quiet, what is smaller than the smallest normal number zero.
static void round_run(uint16_t* to, const char* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, from + 4 * i, sizeof bits);
    const uint32_t size = bits & 0x7fffffffu;
    uint32_t made = bits + 0x7fffu + (bits >> 16 & 1u);
    if (size > 0x7f800000u) made = bits | 0x400000u;
    if (size < 0x800000u) made = bits & 0x80000000u;
    to[i] = (uint16_t)(made >> 16);
  }
}

static void move(const at_box* box, unsigned dim, char* memory, char* scratchpad, bool is_load) {
  const int64_t size = (int64_t)box->size, in_scratchpad = box->rounds ? 2 : size;
  if (dim + 1 == box->rank) {
    const size_t bytes = (size_t)(box->dim[dim] * size);
    if (box->rounds) {
      round_run((uint16_t*)(void*)scratchpad, memory, box->dim[dim]);
    } else if (is_load) {
      memcpy(scratchpad, memory, bytes);
    } else {
      memcpy(memory, scratchpad, bytes);
    }
    return;
  }
  const int64_t outer = box->memory[dim] * size, inner = box->scratchpad[dim] * in_scratchpad;
  for (int64_t i = 0; i < box->dim[dim]; ++i) {
    move(box, dim + 1, memory + i * outer, scratchpad + i * inner, is_load);
  }
}

static void move_all(const at_box* box, char* memory, char* scratchpad, bool is_load) {
  for (unsigned i = 0; i < box->rank; ++i) {
    if (box->dim[i] <= 0) return;
  }
  const at_box made = normal(box);
  move(&made, 0, memory, scratchpad, is_load);
}

void at_box_load(const at_box* box, const char* memory, char* scratchpad) {
  move_all(box, (char*)(uintptr_t)memory, scratchpad, true);
}

void at_box_store(const at_box* box, const char* scratchpad, char* memory) {
  move_all(box, memory, (char*)(uintptr_t)scratchpad, false);
}

void at_load(at_device* device, at_cost cost, at_region* to) {
  at_issue(device, &(at_operation){.engine = ATALLA_LOAD,
                                   .kind = AT_DMA_LD,
                                   .cycles = cost.cycles,
                                   .bytes = cost.bytes,
                                   .descriptors = cost.descriptors,
                                   .reads = {&device->memory},
                                   .writes = {to}});
}

void at_store(at_device* device, at_cost cost, at_region* from) {
  at_issue(device, &(at_operation){.engine = ATALLA_STORE,
                                   .kind = AT_DMA_ST,
                                   .cycles = cost.cycles,
                                   .bytes = cost.bytes,
                                   .descriptors = cost.descriptors,
                                   .reads = {from},
                                   .writes = {device->is_ordered ? &device->memory : NULL}});
}
