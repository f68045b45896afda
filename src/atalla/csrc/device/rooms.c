// Rooms: see "rooms.h".
#include "rooms.h"

#include <string.h>

#include "firmware.h"
#include "scratchpad.h"
#include "timeline.h"

enum { MOST_ROOMS = 32 };

void at_begin_instruction(at_device* device, uint64_t begin, size_t room, bool is_ordered, atalla_counters* counters) {
  *counters = (atalla_counters){.begin = begin, .room_bytes = room};
  device->counters = counters;
  device->is_ordered = is_ordered;
  device->failure = ATALLA_OK;
  at_timeline_start(device, begin);
  at_scratchpads_start(device, room);
}

// The rooms of a scratchpad, from small to large, none below `least`.
static size_t rooms_of(const atalla_hardware* hardware, size_t least, size_t rooms[MOST_ROOMS]) {
  size_t count = 0;
  if (least > LEAST_SCRATCHPAD && least <= hardware->scratchpad_bytes) rooms[count++] = least;
  for (size_t room = LEAST_SCRATCHPAD; room <= hardware->scratchpad_bytes; room *= 2) {
    if (room > least || (room == LEAST_SCRATCHPAD && least <= room)) rooms[count++] = room;
    const size_t half = room / 2 * 3;
    if (half > least && half <= hardware->scratchpad_bytes) rooms[count++] = half;
  }
  return count;
}

// Tries what was cut for a room in that room, and in larger ones as long as it waits for room.
typedef void trial(at_device* device, const void* argument);

static void try_rooms(at_device* device, size_t cut, trial* run, const void* argument, at_choice* best) {
  static const size_t factors[] = {1, 2, 4};
  for (size_t i = 0; i < sizeof factors / sizeof *factors; ++i) {
    const size_t room = cut * factors[i];
    if (room > device->hardware.scratchpad_bytes) return;
    atalla_counters counters;
    device->is_trial = true;
    at_begin_instruction(device, 0, room, best->is_ordered, &counters);
    run(device, argument);
    const uint64_t cycles = at_timeline_end(device);
    if (!device->failure && (!best->room || cycles < best->cycles)) {
      best->cut = cut;
      best->room = room;
      best->cycles = cycles;
    }
    if (!counters.stalls[ATALLA_STALL_SCRATCHPAD]) return;
  }
}

typedef struct {
  const at_product* product;
  const at_plan* plan;
} planned;

static void run_planned(at_device* device, const void* argument) {
  const planned* p = argument;
  at_run_product(device, p->product, p->plan);
}

void at_try_product(at_device* device, uint16_t op, const at_call* call, at_choice* best) {
  const at_product p = at_product_of(&device->hardware, op, call);
  size_t rooms[MOST_ROOMS];
  const size_t count = rooms_of(&device->hardware, 0, rooms);
  at_plan_choice choices[MOST_ROOMS];
  for (size_t i = 0; i < count; ++i) choices[i].room = rooms[i];
  at_choose_plans(&device->hardware, &p, choices, count);
  for (size_t i = 0; i < count; ++i) {
    if (!choices[i].expected) continue;
    if (i > 0 && memcmp(&choices[i].plan, &choices[i - 1].plan, sizeof(at_plan)) == 0) continue;
    const uint64_t before = best->room ? best->cycles : UINT64_MAX;
    try_rooms(device, rooms[i], run_planned, &(planned){&p, &choices[i].plan}, best);
    if (best->room && best->cycles < before) best->plan = choices[i].plan;
  }
}

typedef struct {
  uint16_t op;
  const at_tiling* tiling;
} tiled;

static void run_tiled(at_device* device, const void* argument) {
  const tiled* t = argument;
  at_run_tiles(device, t->op, t->tiling);
}

size_t at_try_tiles(at_device* device, uint16_t op, const at_call* call, at_choice* best) {
  const atalla_hardware* hardware = &device->hardware;
  at_tiling tiling;
  at_cut(op, call, &(at_room){hardware->scratchpad_bytes, hardware->align}, &tiling);
  const size_t smallest = tiling.least;
  size_t rooms[MOST_ROOMS], before = 0;
  const size_t count = rooms_of(hardware, smallest, rooms);
  for (size_t i = 0; i < count; ++i) {
    if (at_cut(op, call, &(at_room){rooms[i], hardware->align}, &tiling) != ATALLA_OK) continue;
    if (tiling.count == before) continue;
    before = tiling.count;
    try_rooms(device, rooms[i], run_tiled, &(tiled){op, &tiling}, best);
  }
  return smallest;
}
