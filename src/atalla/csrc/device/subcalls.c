// Instructions that are no products: tile after tile is copied to one of the two scratchpads, turn and turn about, run
// by the instruction's own kernel, and copied back.
#include <string.h>

#include "costs.h"
#include "firmware.h"
#include "scratchpad.h"
#include "timeline.h"
#include "transfer.h"

static at_box box_of(const at_view* view, const at_view* dense) {
  at_box box = {.rank = view->rank, .size = at_size(view->dtype)};
  for (unsigned i = 0; i < view->rank; ++i) {
    box.dim[i] = view->stride[i] == 0 ? 1 : view->dim[i];  // what is repeated is there once
    box.memory[i] = view->stride[i];
    box.scratchpad[i] = dense->stride[i];
  }
  return box;
}

// A tile whose views are in a scratchpad, and where they came from.
typedef struct {
  at_call call;
  int64_t words[AT_TILE_WORDS];
  uint32_t in_place;
  at_view memory[AT_VIEWS];  // of the sources, and dst behind them
  at_region regions[AT_VIEWS];
  bool has_region[AT_VIEWS];
} tile;

// Takes room for all views, and lets the call point at it.
static int place(at_device* device, tile* t, unsigned scratchpad) {
  size_t bytes[AT_VIEWS], count = 0;
  at_region taken[AT_VIEWS];
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    t->has_region[i] = at_is_there(&t->call, i) && !(t->in_place >> i & 1);
    t->memory[i] = *at_view_of(&t->call, i);
    if (t->has_region[i]) bytes[count++] = at_dense(&t->memory[i], at_view_of(&t->call, i));
  }
  if (device->tile == 0) {
    size_t all = 0;
    for (size_t i = 0; i < count; ++i) all += at_rounded(bytes[i] ? bytes[i] : 1, device->hardware.align);
    device->counters->frames = all ? (uint32_t)(2 * (device->scratchpads[0].room / all)) : MOST_REGIONS;
  }
  const int status = at_take(device, scratchpad, bytes, count, taken);
  if (status != ATALLA_OK) return status;
  count = 0;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    if (!t->has_region[i]) continue;
    t->regions[i] = taken[count++];
    at_view_of(&t->call, i)->data = t->regions[i].data;
  }
  return ATALLA_OK;
}

static void load(at_device* device, tile* t) {
  for (unsigned i = 0; i < AT_SOURCES; ++i) {
    if (!at_is_there(&t->call, i)) continue;
    const at_view* of = t->has_region[i] ? &t->memory[i] : &t->memory[AT_SOURCES];
    at_view dense = *of;
    if (t->has_region[i]) {
      dense = *at_view_of(&t->call, i);
    } else {
      at_dense(of, &dense);  // of a table, what is made of it is read
    }
    const at_box box = box_of(of, &dense);
    at_load(device, at_box_cost(&device->hardware, &box), t->has_region[i] ? &t->regions[i] : NULL);
    if (t->has_region[i] && at_moves_data(device)) at_box_load(&box, of->data, t->regions[i].data);
  }
}

static void compute(at_device* device, tile* t, uint16_t op) {
  const at_call_cost cost = at_cost_of_call(&device->hardware, op, &t->call);
  at_operation o = {.engine = ATALLA_MATRIX, .kind = AT_MXU_CALL, .cycles = cost.matrix};
  for (unsigned i = 0; i < AT_SOURCES; ++i) o.reads[i] = t->has_region[i] ? &t->regions[i] : NULL;
  if (t->has_region[AT_SOURCES]) o.writes[0] = &t->regions[AT_SOURCES];
  if (cost.matrix) at_issue(device, &o);
  o.engine = ATALLA_VECTOR;
  o.kind = AT_VPU_CALL;
  o.cycles = cost.vector;
  if (cost.matrix) o.reads[AT_SOURCES] = o.writes[0];
  at_issue(device, &o);
  device->counters->matrix_cycles += cost.matrix;
  device->counters->macs += cost.macs;
  if (!at_moves_data(device)) return;
  const at_kernels* having = at_kernels_with(device->chosen, op);
  t->call.pool = device->pool;
  if (having->scratch[op]) {
    t->call.scratch_bytes = at_rounded(having->scratch[op](&t->call) + AT_LINE, AT_LINE);
    if (!at_grow(&device->scratch, &device->scratch_bytes, t->call.scratch_bytes)) {
      device->failure = ATALLA_OUT_OF_MEMORY;
      return;
    }
    t->call.scratch = device->scratch;
  }
  device->failure = having->run[op](&t->call);
}

static void store(at_device* device, tile* t) {
  const at_view* to = &t->memory[AT_SOURCES];
  const bool is_copy = t->has_region[AT_SOURCES];
  // What is scattered is as much as its source.
  const at_view* much = is_copy ? to : &t->memory[t->call.sources - 1];
  at_view dense;
  at_dense(much, &dense);
  const at_box box = box_of(much, &dense);
  at_store(device, at_box_cost(&device->hardware, &box), is_copy ? &t->regions[AT_SOURCES] : NULL);
  if (is_copy && at_moves_data(device)) at_box_store(&box, t->regions[AT_SOURCES].data, to->data);
}

void at_run_tiles(at_device* device, uint16_t op, const at_tiling* tiling) {
  for (size_t i = 0; i < tiling->count && !device->failure; ++i) {
    tile t = {.in_place = 0};
    at_tile(tiling, i, &t.call, t.words, &t.in_place);
    if (place(device, &t, (unsigned)(i % 2)) != ATALLA_OK) return;
    device->tiles.now.begins_frame = 1;
    load(device, &t);
    compute(device, &t, op);
    if (device->failure) return;
    store(device, &t);
    at_region* given[AT_VIEWS];
    size_t count = 0;
    for (unsigned k = 0; k < AT_VIEWS; ++k) {
      if (t.has_region[k]) given[count++] = &t.regions[k];
    }
    at_give(device, given, count);
    at_end_tile(device);
  }
}
