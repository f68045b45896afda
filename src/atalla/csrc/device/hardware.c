// Hardware: what a simulated device is made of, its usual values, and what there cannot be.
#include <stdio.h>
#include <string.h>

#include "device.h"

static const atalla_hardware USUAL_HARDWARE = {
    .struct_size = sizeof(atalla_hardware),
    .clock_mhz = 1000,
    .array = 32,
    .accumulator_rows = 1024,
    .lanes = 32,
    .scratchpad_bytes = 1 << 20,
    .banks = 32,
    .align = 64,
    .dma_bytes_per_cycle = 32,
    .dma_latency_cycles = 64,
    .queue = 16,
    .issue_cycles = 4,
    .matrix_f32_factor = 4,
    .vector_cycles = {1, 8, 16, 2},
    .vector_int8_factor = 4,
};

int atalla_hardware_default(atalla_hardware* hardware) {
  if (!hardware || hardware->struct_size < sizeof *hardware) return ATALLA_BAD_ARGUMENT;
  *hardware = USUAL_HARDWARE;
  return ATALLA_OK;
}

int at_fail(atalla_error* error, int status, const char* text) {
  if (error && error->struct_size >= sizeof *error) {
    error->status = status;
    snprintf(error->text, sizeof error->text, "%s", text);
  }
  return status;
}

typedef struct {
  const char* name;
  uint64_t value, least, most;
} bounds;

int atalla_hardware_check(const atalla_hardware* h, atalla_error* error) {
  if (!h || h->struct_size < sizeof *h) {
    return at_fail(error, ATALLA_BAD_ARGUMENT, "hardware is null, or of another version");
  }
  const bounds all[] = {
      {"clock_mhz", h->clock_mhz, 1, 100000},
      {"array", h->array, 8, 64},
      {"accumulator_rows", h->accumulator_rows, LEAST_ACCUMULATOR_ROWS, 1 << 16},
      {"lanes", h->lanes, 1, 4096},
      {"scratchpad_bytes", h->scratchpad_bytes, LEAST_SCRATCHPAD, MOST_SCRATCHPAD},
      {"banks", h->banks, 1, 1024},
      {"align", h->align, 16, 4096},
      {"dma_bytes_per_cycle", h->dma_bytes_per_cycle, 1, 4096},
      {"dma_latency_cycles", h->dma_latency_cycles, 0, 1000000},
      {"queue", h->queue, 1, MOST_QUEUE},
      {"issue_cycles", h->issue_cycles, 0, 10000},
      {"matrix_f32_factor", h->matrix_f32_factor, 1, 64},
      {"vector_simple_cycles", h->vector_cycles[0], 1, 10000},
      {"vector_divide_cycles", h->vector_cycles[1], 1, 10000},
      {"vector_exp_cycles", h->vector_cycles[2], 1, 10000},
      {"vector_requantise_cycles", h->vector_cycles[3], 1, 10000},
      {"vector_int8_factor", h->vector_int8_factor, 1, 4},
  };
  char text[200];
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (all[i].value >= all[i].least && all[i].value <= all[i].most) continue;
    snprintf(text, sizeof text, "%s is %llu: it is %llu to %llu", all[i].name, (unsigned long long)all[i].value,
             (unsigned long long)all[i].least, (unsigned long long)all[i].most);
    return at_fail(error, ATALLA_BAD_ARGUMENT, text);
  }
  if (h->array & (h->array - 1)) {
    snprintf(text, sizeof text, "array is %u: it is 8, 16, 32 or 64", h->array);
    return at_fail(error, ATALLA_BAD_ARGUMENT, text);
  }
  if (h->vector_int8_factor == 3) {
    snprintf(text, sizeof text, "vector_int8_factor is 3: it is 1, 2 or 4");
    return at_fail(error, ATALLA_BAD_ARGUMENT, text);
  }
  if (h->align & (h->align - 1)) {
    snprintf(text, sizeof text, "align is %u: it is a power of two", h->align);
    return at_fail(error, ATALLA_BAD_ARGUMENT, text);
  }
  const uint64_t step = (uint64_t)h->banks * AT_LINE;
  if (h->scratchpad_bytes % step) {
    snprintf(text, sizeof text, "scratchpad_bytes is %llu: it is a multiple of banks * %d, which is %llu",
             (unsigned long long)h->scratchpad_bytes, AT_LINE, (unsigned long long)step);
    return at_fail(error, ATALLA_BAD_ARGUMENT, text);
  }
  return ATALLA_OK;
}
