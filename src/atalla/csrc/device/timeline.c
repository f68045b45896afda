// Timeline: see "timeline.h".
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

static const char* const KINDS[AT_KINDS] = {"DMA.LD",    "DMA.ST",     "MXU.SET",     "MXU.MM",
                                            "MXU.DRAIN", "VPU.FINISH", "VPU.WINO_IN", "VPU.WINO_OUT",
                                            "VPU.CALL",  "MXU.CALL",   "SPAD"};

const char* atalla_device_kind(uint32_t kind) { return kind < AT_KINDS ? KINDS[kind] : NULL; }

int at_timeline_new(at_device* device) {
  for (int i = 0; i < ATALLA_ENGINES; ++i) {
    device->timeline.begins[i] = calloc(device->hardware.queue, sizeof(uint64_t));
    if (!device->timeline.begins[i]) return ATALLA_OUT_OF_MEMORY;
  }
  return ATALLA_OK;
}

void at_timeline_free(at_device* device) {
  for (int i = 0; i < ATALLA_ENGINES; ++i) free(device->timeline.begins[i]);
  free(device->events.rows);
  free(device->tiles.rows);
}

void at_timeline_start(at_device* device, uint64_t begin) {
  at_timeline* t = &device->timeline;
  t->issued = begin;
  t->roomless = 0;
  for (int i = 0; i < ATALLA_ENGINES; ++i) {
    t->free[i] = begin;
    t->count[i] = 0;
  }
  device->memory = (at_region){.offset = 0};
  device->tile = 0;
  device->tiles.now = (atalla_tile_cost){.instruction = device->instruction};
}

uint64_t at_timeline_end(const at_device* device) {
  const at_timeline* t = &device->timeline;
  uint64_t end = t->issued;
  for (int i = 0; i < ATALLA_ENGINES; ++i) end = at_most(end, t->free[i]);
  return end;
}

// Adds a row to a list that grows; NULL where there is no memory.
static void* add_row(void** rows, size_t* count, size_t* capacity, size_t size) {
  if (*count == *capacity) {
    const size_t more = *capacity ? 2 * *capacity : 256;
    void* grown = realloc(*rows, more * size);
    if (!grown) return NULL;
    *rows = grown;
    *capacity = more;
  }
  return (char*)*rows + (*count)++ * size;
}

atalla_event* at_new_event(at_device* device) {
  at_event_list* list = &device->events;
  atalla_event* row = add_row((void**)&list->rows, &list->count, &list->capacity, sizeof *row);
  if (!row && !device->failure) device->failure = ATALLA_OUT_OF_MEMORY;
  return row;
}

static void record(at_device* device, const at_operation* o, uint64_t begin, uint64_t end) {
  atalla_event* row = at_new_event(device);
  if (!row) return;
  *row = (atalla_event){.begin = begin,
                        .end = end,
                        .instruction = device->instruction,
                        .tile = device->tile,
                        .bytes = o->bytes,
                        .engine = o->engine,
                        .kind = o->kind};
  for (int i = 0; i < MOST_REGIONS; ++i) {
    if (o->reads[i] && o->reads[i] != &device->memory) row->regions[row->read_count++] = o->reads[i]->event;
  }
  for (int i = 0; i < 2; ++i) {
    if (!o->writes[i] || o->writes[i] == &device->memory) continue;
    row->regions[row->read_count + row->write_count++] = o->writes[i]->event;
  }
}

// What an engine that was free at `from` waited for until `begin`: whatever came last.
static void count_stall(at_device* device, uint64_t from, uint64_t begin, uint64_t data, unsigned cause) {
  uint64_t* stalls = device->counters->stalls;
  if (data == begin) {
    stalls[cause] += begin - from;
    return;
  }
  const uint64_t roomless = device->timeline.roomless;
  const uint64_t until = roomless < from ? from : roomless > begin ? begin : roomless;
  stalls[ATALLA_STALL_SCRATCHPAD] += until - from;
  stalls[ATALLA_STALL_ISSUE] += begin - until;
}

uint64_t at_issue(at_device* device, const at_operation* o) {
  at_timeline* t = &device->timeline;
  const unsigned engine = o->engine;
  uint64_t* place = &t->begins[engine][t->count[engine] % device->hardware.queue];
  t->issued += device->hardware.issue_cycles;
  if (t->count[engine] >= device->hardware.queue) t->issued = at_most(t->issued, *place);
  uint64_t data = 0;
  unsigned cause = ATALLA_STALL_ISSUE;
  for (int i = 0; i < MOST_REGIONS; ++i) {
    const at_region* read = o->reads[i];
    if (!read || read->written <= data) continue;
    data = read->written;
    cause = read->writer;
  }
  for (int i = 0; i < 2; ++i) {
    const at_region* write = o->writes[i];
    if (write && write->written > data) {
      data = write->written;
      cause = write->writer;
    }
    if (write && write->read > data) {
      data = write->read;
      cause = write->reader;
    }
  }
  const uint64_t from = t->free[engine], begin = at_most(at_most(t->issued, from), data), end = begin + o->cycles;
  if (begin > from) count_stall(device, from, begin, data, cause);
  *place = begin;
  ++t->count[engine];
  t->free[engine] = end;
  for (int i = 0; i < MOST_REGIONS; ++i) {
    at_region* read = o->reads[i];
    if (!read || read->read >= end) continue;
    read->read = end;
    read->reader = (uint8_t)engine;
  }
  for (int i = 0; i < 2; ++i) {
    if (!o->writes[i]) continue;
    o->writes[i]->written = at_most(o->writes[i]->written, end);
    o->writes[i]->writer = (uint8_t)engine;
  }
  atalla_counters* c = device->counters;
  c->busy[engine] += o->cycles;
  ++c->operations[engine];
  c->descriptors += o->descriptors;
  atalla_tile_cost* tile = &device->tiles.now;
  tile->cycles[engine] += o->cycles;
  ++tile->operations[engine];
  if (o->kind == AT_VPU_WINO_IN) {
    tile->spread_cycles += o->cycles;
    tile->before_spread = tile->cycles[ATALLA_LOAD];
  }
  if (o->kind == AT_MXU_SET) tile->bias_cycles += o->cycles;
  if (o->kind == AT_MXU_DRAIN) tile->drain_cycles += o->cycles;
  if (engine == ATALLA_LOAD) {
    c->in_bytes += o->bytes;
    tile->in_bytes += o->bytes;
    tile->in_descriptors += (uint32_t)o->descriptors;
  } else if (engine == ATALLA_STORE) {
    c->out_bytes += o->bytes;
    tile->out_bytes += o->bytes;
    tile->out_descriptors += (uint32_t)o->descriptors;
  }
  if (device->keeps_events && !device->is_trial) record(device, o, begin, end);
  return end;
}

void at_end_tile(at_device* device) {
  ++device->tile;
  ++device->counters->tiles;
  at_tile_list* list = &device->tiles;
  const atalla_tile_cost now = list->now;
  list->now = (atalla_tile_cost){.instruction = device->instruction};
  if (device->is_trial) return;
  atalla_tile_cost* last = list->count ? &list->rows[list->count - 1] : NULL;
  if (last) {
    const uint32_t count = last->count;
    last->count = 0;
    const bool is_same = memcmp(last, &now, sizeof now) == 0;
    last->count = count + is_same;
    if (is_same) return;
  }
  last = add_row((void**)&list->rows, &list->count, &list->capacity, sizeof *last);
  if (!last) {
    if (!device->failure) device->failure = ATALLA_OUT_OF_MEMORY;
    return;
  }
  *last = now;
  last->count = 1;
}
