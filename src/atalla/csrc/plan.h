// Where buffers lie in an arena; see "plan.c".
#pragma once

#include <stddef.h>
#include <stdint.h>

// Places buffers by best fit, the largest first and then by other orders, and keeps the smallest plan. Buffer i has
// `size[i]` bytes and is needed from step `first[i]` to step `last[i]`, both included; `offset` gets one number each,
// a multiple of `align`, and `peak` the bytes of the arena. Linear in memory, quadratic in time.
// 0, ATALLA_OUT_OF_MEMORY, or ATALLA_BAD_ARGUMENT where sizes do not fit into 63 bits or a buffer ends before it
// begins.
int at_plan_greedy(size_t count, const uint64_t* size, const uint32_t* first, const uint32_t* last, uint64_t align,
                   uint64_t* offset, uint64_t* peak);
