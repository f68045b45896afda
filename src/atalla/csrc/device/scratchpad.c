// Scratchpad: see "scratchpad.h".
#include "scratchpad.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff };  // every float of these bytes is no number

int at_scratchpads_new(at_device* device) {
  for (int i = 0; i < 2; ++i) {
    void* found = NULL;
    if (!device->is_dry && posix_memalign(&found, AT_PAGE, device->hardware.scratchpad_bytes) != 0) {
      return ATALLA_OUT_OF_MEMORY;
    }
    device->scratchpads[i].memory = found;
  }
  return ATALLA_OK;
}

void at_scratchpads_free(at_device* device) {
  for (int i = 0; i < 2; ++i) {
    free(device->scratchpads[i].memory);
    free(device->scratchpads[i].blocks);
  }
}

void at_scratchpads_start(at_device* device, size_t room) {
  for (int i = 0; i < 2; ++i) {
    device->scratchpads[i].count = 0;
    device->scratchpads[i].room = room;
  }
}

bool at_grow(char** at, size_t* have, size_t bytes) {
  if (bytes <= *have) return true;
  void* found = NULL;
  if (posix_memalign(&found, AT_LINE, at_rounded(bytes, AT_LINE)) != 0) return false;
  free(*at);
  *at = found;
  *have = bytes;
  return true;
}

// Forgets what is free by now.
static void drop_free(at_scratchpad* s, uint64_t now) {
  size_t kept = 0;
  for (size_t i = 0; i < s->count; ++i) {
    if (s->blocks[i].free_at > now) s->blocks[kept++] = s->blocks[i];
  }
  s->count = kept;
}

// Puts a block of so many bytes into the first gap that holds it; where, or SIZE_MAX.
static size_t fit(at_scratchpad* s, size_t bytes) {
  size_t at = 0, i = 0;
  for (; i < s->count && s->blocks[i].offset - at < bytes; ++i) at = s->blocks[i].offset + s->blocks[i].bytes;
  if (i == s->count && s->room - at < bytes) return SIZE_MAX;
  if (s->count == s->capacity) {
    const size_t more = s->capacity ? 2 * s->capacity : 64;
    at_block* grown = realloc(s->blocks, more * sizeof *grown);
    if (!grown) return SIZE_MAX;
    s->blocks = grown;
    s->capacity = more;
  }
  memmove(s->blocks + i + 1, s->blocks + i, (s->count - i) * sizeof *s->blocks);
  s->blocks[i] = (at_block){at, bytes, AT_HELD};
  ++s->count;
  return at;
}

static void take_out(at_scratchpad* s, size_t offset) {
  size_t i = 0;
  while (s->blocks[i].offset != offset) ++i;
  memmove(s->blocks + i, s->blocks + i + 1, (s->count - i - 1) * sizeof *s->blocks);
  --s->count;
}

static bool fit_all(at_device* device, at_scratchpad* s, const size_t* bytes, size_t count, at_region* regions) {
  for (size_t i = 0; i < count; ++i) {
    regions[i].bytes = bytes[i];
    const size_t size = at_rounded(bytes[i] ? bytes[i] : 1, device->hardware.align);
    regions[i].offset = size > s->room ? SIZE_MAX : fit(s, size);
    if (regions[i].offset != SIZE_MAX) continue;
    while (i-- > 0) take_out(s, regions[i].offset);
    return false;
  }
  return true;
}

// When the next of the blocks that were given back is free; AT_HELD where there is none.
static uint64_t next_free(const at_scratchpad* s) {
  uint64_t next = AT_HELD;
  for (size_t i = 0; i < s->count; ++i) {
    if (s->blocks[i].free_at < next) next = s->blocks[i].free_at;
  }
  return next;
}

int at_take(at_device* device, unsigned scratchpad, const size_t* bytes, size_t count, at_region* regions) {
  at_scratchpad* s = &device->scratchpads[scratchpad];
  at_timeline* t = &device->timeline;
  memset(regions, 0, count * sizeof *regions);
  drop_free(s, t->issued);
  while (!fit_all(device, s, bytes, count, regions)) {
    const uint64_t next = next_free(s);
    if (next == AT_HELD) return device->failure = ATALLA_TOO_SMALL;
    t->issued = t->roomless = next;
    drop_free(s, next);
  }
  size_t used = 0;
  for (size_t i = 0; i < s->count; ++i) used += s->blocks[i].bytes;
  atalla_counters* c = device->counters;
  if (used > c->peak_bytes[scratchpad]) c->peak_bytes[scratchpad] = used;
  for (size_t i = 0; i < count; ++i) {
    at_region* region = &regions[i];
    region->scratchpad = scratchpad;
    region->written = region->read = 0;
    if (at_moves_data(device)) {
      region->data = s->memory + region->offset;
      if (device->poisons) memset(region->data, POISON, region->bytes);
    }
    if (!device->keeps_events || device->is_trial) continue;
    region->event = (uint32_t)device->events.count;
    atalla_event* row = at_new_event(device);
    if (!row) return device->failure;
    *row = (atalla_event){.begin = t->issued,
                          .instruction = device->instruction,
                          .tile = device->tile,
                          .bytes = region->bytes,
                          .offset = region->offset,
                          .engine = ATALLA_ENGINES,
                          .kind = AT_SPAD,
                          .scratchpad = scratchpad};
  }
  return ATALLA_OK;
}

void at_give(at_device* device, at_region* const* regions, size_t count) {
  uint64_t end = 0;
  for (size_t i = 0; i < count; ++i) end = at_most(end, at_most(regions[i]->written, regions[i]->read));
  for (size_t i = 0; i < count; ++i) {
    const at_region* region = regions[i];
    at_scratchpad* s = &device->scratchpads[region->scratchpad];
    size_t k = 0;
    while (s->blocks[k].offset != region->offset) ++k;
    s->blocks[k].free_at = end;
    if (at_moves_data(device) && device->poisons) memset(region->data, POISON, region->bytes);
    if (device->is_trial || !device->keeps_events || region->event >= device->events.count) continue;
    atalla_event* row = &device->events.rows[region->event];
    row->end = at_most(end, row->begin);
  }
}
