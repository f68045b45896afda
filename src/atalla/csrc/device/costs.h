// Costs: cycles of the vector unit for what it does to sums and tiles, and products that an instruction adds up.
#pragma once

#include "device.h"

// How often lanes do something to each element: sums and products, quotients and roots, exponentials, bytes of sums.
typedef struct {
  uint32_t simple, divide, exponential, requantise;
} at_steps;

// Elements of 32 bits, and what is worked out in them.
uint64_t at_vector_cycles(const atalla_hardware* hardware, uint64_t elements, at_steps steps);

// An activation.
at_steps at_activation_steps(int64_t act);

// What follows sums: residual and activation, or what makes bytes of them.
at_steps at_finish_steps(bool is_int8, bool has_residual, int64_t act);

// Winograd's transforms of tiles of `edge` pixels a side, with products that are added at once: of an element of a
// transformed tile, and of one of the result.
at_steps at_spread_steps(size_t edge);
at_steps at_gather_steps(size_t edge);

// An instruction on a tile, by its own kernel: cycles of the vector unit and of the matrix unit, and products.
typedef struct {
  uint64_t vector, matrix, macs;
} at_call_cost;

at_call_cost at_cost_of_call(const atalla_hardware* hardware, uint16_t op, const at_call* call);
