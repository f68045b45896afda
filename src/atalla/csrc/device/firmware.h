// Firmware: how each instruction is cut for the device, and the loop over them.
#pragma once

#include "device.h"
#include "product.h"
#include "tiles.h"

// Runs an instruction that is no product.
void at_run_tiles(at_device* device, uint16_t op, const at_tiling* tiling);

typedef struct at_firmware at_firmware;

// What a context says about itself: the program, and what each instruction is called with, but for the caller's memory.
typedef struct {
  const atalla_blob* blob;
  const at_call* calls;
  const at_kernels* kernels;
  const atalla_options* options;
  at_pool* pool;
} at_program;

// Makes a device, and finds out how each instruction is cut. With a status it fills in the error.
int at_firmware_new(const at_program* program, at_firmware** result, atalla_error* error);
void at_firmware_free(at_firmware* firmware);

bool at_firmware_is_dry(const at_firmware* firmware);

// Before the first instruction of a run.
void at_firmware_begin(at_firmware* firmware);

// Runs instruction `number`; `call` says where its data are.
int at_firmware_run(at_firmware* firmware, uint32_t number, const at_call* call);

// The host ran it meanwhile.
void at_firmware_skip(at_firmware* firmware, uint32_t number, bool is_host);

size_t at_firmware_counters(const at_firmware* firmware, atalla_counters* rows, size_t count);
size_t at_firmware_tiles(const at_firmware* firmware, atalla_tile_cost* rows, size_t count);
size_t at_firmware_events(const at_firmware* firmware, atalla_event* rows, size_t count);
