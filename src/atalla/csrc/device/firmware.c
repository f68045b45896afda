// Firmware: see "firmware.h".
#include "firmware.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"
#include "rooms.h"
#include "scratchpad.h"
#include "timeline.h"

static const unsigned __int128 MOST_MEMORY = (unsigned __int128)1 << 32;

struct at_firmware {
  at_device device;
  const atalla_blob* blob;
  at_choice* choices;
  atalla_counters* counters;
  uint64_t clock;
};

static bool same_form(const at_tensor* a, const at_tensor* b) {
  return a->place == b->place && a->offset == b->offset && a->rank == b->rank &&
         memcmp(a->dim, b->dim, sizeof a->dim) == 0 && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

// Whether an instruction reads memory that it writes, elsewhere than where it writes it.
static bool reads_its_own(const atalla_blob* blob, const at_insn* insn) {
  if (insn->dst == AT_NOTHING) return false;
  const at_tensor *dst = &blob->tensors[insn->dst], *to = &blob->tensors[dst->root];
  for (uint32_t i = 0; i < insn->sources; ++i) {
    const uint32_t number = at_operand(blob, insn->first_source + i);
    if (number == AT_NOTHING) continue;
    const at_tensor *src = &blob->tensors[number], *from = &blob->tensors[src->root];
    if (from->space != to->space || same_form(src, dst)) continue;
    if (from == to) return true;
    if (from->space == AT_INPUT || from->space == AT_OUTPUT) continue;
    if (from->place < to->place + (int64_t)to->bytes && to->place < from->place + (int64_t)from->bytes) return true;
  }
  return false;
}

// Constants, arena, state, inputs and outputs lie in one memory of 32-bit addresses.
static int check_memory(const atalla_blob* blob, atalla_error* error) {
  unsigned __int128 bytes = (unsigned __int128)blob->constant_bytes + blob->arena_bytes + blob->state_bytes;
  for (uint32_t i = 0; i < blob->input_count + blob->output_count; ++i) {
    const uint8_t* row = at_output_row(blob, i);
    if (at_u32(row + AT_OUTPUT_AT_KIND) != AT_KIND_TENSOR) continue;
    bytes += blob->tensors[at_u32(row + AT_OUTPUT_AT_TENSOR)].bytes;
  }
  if (bytes <= MOST_MEMORY) return ATALLA_OK;
  char text[160];
  snprintf(text, sizeof text,
           "the program needs %llu bytes of memory: the device's addresses have 32 bits, 4294967296 bytes",
           (unsigned long long)bytes);
  return at_fail(error, ATALLA_TOO_SMALL, text);
}

static int find_choices(at_firmware* f, const at_program* program, atalla_error* error) {
  const atalla_blob* blob = f->blob;
  size_t smallest = LEAST_SCRATCHPAD;
  uint32_t worst = AT_NOTHING;
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const at_insn* insn = &blob->insns[i];
    const at_call* call = &program->calls[i];
    if (insn->op == AT_OP_END) break;
    if (insn->op == AT_OP_CALL_HOST || insn->dst == AT_NOTHING || at_elements(&call->dst) == 0) continue;
    at_choice* best = &f->choices[i];
    best->is_ordered = reads_its_own(blob, insn);
    size_t least = LEAST_SCRATCHPAD;
    if (at_is_product(insn->op)) {
      at_try_product(&f->device, insn->op, call, best);
    } else {
      least = at_try_tiles(&f->device, insn->op, call, best);
    }
    if (best->room) continue;
    if (f->device.failure == ATALLA_OUT_OF_MEMORY) return at_fail(error, ATALLA_OUT_OF_MEMORY, "out of memory");
    if (worst == AT_NOTHING) worst = i;
    if (least > smallest) smallest = least;
  }
  if (worst == AT_NOTHING) return ATALLA_OK;
  static const char* const names[AT_OP_COUNT] = AT_OP_NAMES;
  const size_t step = (size_t)f->device.hardware.banks * AT_LINE;
  char text[200];
  snprintf(text, sizeof text,
           "instruction %u (%s) does not fit into a scratchpad of %llu bytes; the smallest in which the program runs "
           "has %zu bytes",
           worst, names[blob->insns[worst].op], (unsigned long long)f->device.hardware.scratchpad_bytes,
           at_rounded(smallest, step));
  return at_fail(error, ATALLA_TOO_SMALL, text);
}

static int reserve(at_firmware* f) {
  at_device* device = &f->device;
  f->choices = calloc(f->blob->insn_count + 1u, sizeof *f->choices);
  f->counters = calloc(f->blob->insn_count + 1u, sizeof *f->counters);
  if (!f->choices || !f->counters || at_timeline_new(device) || at_scratchpads_new(device)) return ATALLA_OUT_OF_MEMORY;
  if (device->is_dry) return ATALLA_OK;
  const size_t bytes = at_sums_bytes(&device->hardware);
  device->running = aligned_alloc(AT_LINE, at_rounded(bytes, AT_LINE));
  device->total = aligned_alloc(AT_LINE, at_rounded(bytes, AT_LINE));
  return device->running && device->total ? ATALLA_OK : ATALLA_OUT_OF_MEMORY;
}

int at_firmware_new(const at_program* program, at_firmware** result, atalla_error* error) {
  const atalla_options* options = program->options;
  int status = atalla_hardware_check(options->hardware, error);
  if (status == ATALLA_OK) status = check_memory(program->blob, error);
  if (status != ATALLA_OK) return status;
  if (options->unit && options->unit->struct_size < sizeof *options->unit) {
    return at_fail(error, ATALLA_BAD_ARGUMENT, "a matrix unit of another version");
  }
  at_firmware* f = calloc(1, sizeof *f);
  if (!f) return at_fail(error, ATALLA_OUT_OF_MEMORY, "out of memory");
  f->blob = program->blob;
  at_device* device = &f->device;
  device->hardware = *options->hardware;
  if (options->unit) device->unit = *options->unit;
  device->is_dry = options->device_flags & ATALLA_DEVICE_DRY;
  device->keeps_events = options->device_flags & ATALLA_DEVICE_EVENTS;
  device->poisons = options->device_flags & ATALLA_DEVICE_POISON;
  device->compares = options->device_flags & ATALLA_DEVICE_COMPARE;
  device->chosen = program->kernels;
  device->kernels = at_kernels_with(program->kernels, AT_OP_GEMM)->device;
  device->pool = program->pool;
  status = reserve(f);
  if (status != ATALLA_OK) at_fail(error, status, "out of memory");
  if (status == ATALLA_OK) status = find_choices(f, program, error);
  if (status != ATALLA_OK) {
    at_firmware_free(f);
    return status;
  }
  *result = f;
  return ATALLA_OK;
}

void at_firmware_free(at_firmware* f) {
  if (!f) return;
  at_timeline_free(&f->device);
  at_scratchpads_free(&f->device);
  free(f->device.running);
  free(f->device.total);
  free(f->device.rows);
  free(f->device.weights);
  free(f->device.scratch);
  free(f->choices);
  free(f->counters);
  free(f);
}

bool at_firmware_is_dry(const at_firmware* f) { return f->device.is_dry; }

void at_firmware_begin(at_firmware* f) {
  f->clock = 0;
  f->device.events.count = f->device.tiles.count = 0;
}

void at_firmware_skip(at_firmware* f, uint32_t number, bool is_host) {
  f->counters[number] = (atalla_counters){.begin = f->clock, .is_host = is_host};
}

int at_firmware_run(at_firmware* f, uint32_t number, const at_call* call) {
  at_device* device = &f->device;
  const at_choice* chosen = &f->choices[number];
  const uint16_t op = f->blob->insns[number].op;
  atalla_counters* counters = &f->counters[number];
  device->instruction = number;
  device->is_trial = false;
  at_begin_instruction(device, f->clock, chosen->room, chosen->is_ordered, counters);
  if (at_is_product(op)) {
    const at_product p = at_product_of(&device->hardware, op, call);
    at_run_product(device, &p, &chosen->plan);
  } else {
    at_tiling tiling;
    device->failure = at_cut(op, call, &(at_room){chosen->cut, device->hardware.align}, &tiling);
    if (!device->failure) at_run_tiles(device, op, &tiling);
  }
  const uint64_t end = at_timeline_end(device);
  counters->cycles = end - f->clock;
  f->clock = end;
  return device->failure;
}

static size_t copy_rows(void* to, const void* from, size_t all, size_t count, size_t size) {
  if (to && all) memcpy(to, from, (count < all ? count : all) * size);
  return all;
}

size_t at_firmware_counters(const at_firmware* f, atalla_counters* rows, size_t count) {
  return copy_rows(rows, f->counters, f->blob->insn_count, count, sizeof *rows);
}

size_t at_firmware_tiles(const at_firmware* f, atalla_tile_cost* rows, size_t count) {
  return copy_rows(rows, f->device.tiles.rows, f->device.tiles.count, count, sizeof *rows);
}

size_t at_firmware_events(const at_firmware* f, atalla_event* rows, size_t count) {
  return copy_rows(rows, f->device.events.rows, f->device.events.count, count, sizeof *rows);
}
