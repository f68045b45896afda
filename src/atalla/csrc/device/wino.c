// Winograd's products on the device: tiles of the image are transformed by the vector unit, 36, 25 or 16 products of
// them go through the matrix unit, and what these make is transformed back. Sums of all wait in the accumulators, so
// that the depth can come in parts.
#include <string.h>

#include "costs.h"
#include "matrix.h"
#include "parts.h"
#include "scratchpad.h"
#include "timeline.h"

typedef struct {
  at_device* device;
  const at_product* product;
  const at_plan* plan;
  at_region weights, image, spread;
  at_region raw[2];
  at_made made[2];
} work;

// Loads a block's part of the image, channels `from` to `to`, and transforms it: spread[place][tile][channel].
static void load_tiles(work* w, const at_block_of_rows* b, size_t from, size_t to) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const at_patch patch = at_patch_of(p, b);
  const size_t depth = to - from, tiles = at_rows_of(b);
  const at_box box = at_patch_box(p, b, &patch, depth);
  at_load(device, at_box_cost(&device->hardware, &box), &w->image);
  at_issue(device, &(at_operation){.engine = ATALLA_VECTOR,
                                   .kind = AT_VPU_WINO_IN,
                                   .cycles = at_vector_cycles(&device->hardware, p->places * tiles * depth,
                                                              at_spread_steps(p->tile.edge)),
                                   .reads = {&w->image},
                                   .writes = {&w->spread}});
  if (!at_moves_data(device)) return;
  at_box_load(&box, at_pixel_address(p, b, patch.y, patch.x, from), w->image.data);
  const at_view view = {.dtype = AT_F32,
                        .rank = 4,
                        .dim = {(int64_t)b->images, (int64_t)depth, patch.high, patch.wide},
                        .stride = {box.scratchpad[0], 1, box.scratchpad[1], box.scratchpad[2]},
                        .data = w->image.data};
  const int64_t* words = p->call->words;
  const at_footprint tile = at_footprint_of(p);
  float* v = (float*)(void*)w->spread.data;
  for (size_t i = 0; i < tiles; ++i, v += depth) {
    const size_t x = b->x + i % b->wide, y = b->y + i / b->wide % b->high, n = i / b->wide / b->high;
    device->kernels->wino_in(p->tile.edge, &view, (int64_t)n,
                             (int64_t)y * tile.down - words[AT_CONV2D_WINO_TOP] - patch.y,
                             (int64_t)x * tile.right - words[AT_CONV2D_WINO_LEFT] - patch.x, depth, v, tiles * depth);
  }
}

static at_sums sums_of(const work* w, size_t tiles, size_t place, size_t column, size_t wide) {
  const size_t size = w->device->hardware.array, of_columns = column / size * w->product->places * tiles;
  return (at_sums){.product = w->product,
                   .rows = tiles,
                   .base = of_columns + place * tiles,
                   .column = column,
                   .columns = wide - column < size ? wide - column : size,
                   .wide = at_rounded(wide, AT_PANEL)};
}

// Products of some places with weights that are loaded; the depth from `from` to `to`, which is what was transformed.
static void multiply(work* w, const at_block_of_rows* b, size_t place, size_t places, size_t columns, size_t from,
                     size_t to) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const size_t tiles = at_rows_of(b), depth = to - from, panels = at_parts(columns, AT_PANEL);
  for (size_t column = 0; column < columns && depth; column += device->hardware.array) {
    for (size_t i = 0; i < places; ++i) {
      const at_sums s = sums_of(w, tiles, place + i, column, columns);
      const uint64_t cycles = at_chain_cycles(&device->hardware, p, tiles, from, to);
      at_issue_matrix(device, AT_MXU_MM, cycles, &w->spread, &w->weights, NULL);
      device->counters->matrix_cycles += cycles;
      device->counters->macs += (uint64_t)tiles * depth * s.columns;
      if (!at_moves_data(device)) continue;
      const size_t at = w->plan->is_whole ? from : 0, pitch = w->plan->is_whole ? p->depth : depth;
      const float* v = (const float*)(void*)w->spread.data + (place + i) * tiles * pitch + at;
      const at_rows rows = {.data = (const char*)v, .is_laid = true, .pitch = pitch, .first = from};
      at_add_products(device, &s, &rows, w->weights.data + i * panels * depth * AT_LINE, from, to);
    }
  }
}

static void begin(work* w, size_t tiles, size_t columns) {
  if (!at_moves_data(w->device)) return;
  for (size_t column = 0; column < columns; column += w->device->hardware.array) {
    for (size_t place = 0; place < w->product->places; ++place) {
      const at_sums s = sums_of(w, tiles, place, column, columns);
      at_begin_sums(w->device, &s, NULL);
    }
  }
}

// Pixels of the result that a block of tiles makes.
static at_block_of_rows pixels_of(const at_product* p, const at_block_of_rows* b) {
  const at_view* dst = &p->call->dst;
  const size_t high = (size_t)dst->dim[2], wide = (size_t)dst->dim[3], side = at_side_of(p);
  at_block_of_rows found = {.image = b->image, .images = b->images, .y = side * b->y, .x = side * b->x};
  found.high = high - found.y < side * b->high ? high - found.y : side * b->high;
  found.wide = wide - found.x < side * b->wide ? wide - found.x : side * b->wide;
  return found;
}

// All sums of a block leave the unit, and become pixels.
static void finish(work* w, const at_block_of_rows* b, at_region* raw, at_made* made, size_t column, size_t columns) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const size_t tiles = at_rows_of(b), wide = at_rounded(columns, AT_PANEL), size = device->hardware.array;
  for (size_t at = 0; at < columns; at += size) {
    at_issue_matrix(device, AT_MXU_DRAIN, p->places * tiles, NULL, NULL, raw);
    for (size_t place = 0; place < p->places && at_moves_data(device); ++place) {
      const at_sums s = sums_of(w, tiles, place, at, columns);
      at_drain_sums(device, &s, raw->data + place * tiles * wide * 4);
    }
  }
  const at_block_of_rows pixels = pixels_of(p, b);
  const uint64_t elements = at_rows_of(&pixels) * columns;
  at_steps steps = at_finish_steps(false, p->has_residual, at_activation_of(p));
  steps.simple += at_gather_steps(p->tile.edge).simple;
  at_issue(device, &(at_operation){
                       .engine = ATALLA_VECTOR,
                       .kind = AT_VPU_WINO_OUT,
                       .cycles = at_vector_cycles(&device->hardware, elements, steps),
                       .reads = {raw, p->has_residual ? &made->residual : NULL, p->has_bias ? &made->numbers : NULL},
                       .writes = {&made->sums}});
  if (at_moves_data(device)) {
    at_call call = {.words = p->call->words, .present = p->call->present};
    const int64_t step = (int64_t)columns, line = (int64_t)pixels.wide * step;
    call.dst = (at_view){.dtype = AT_F32,
                         .rank = 4,
                         .dim = {(int64_t)b->images, step, (int64_t)pixels.high, (int64_t)pixels.wide},
                         .stride = {(int64_t)pixels.high * line, 1, line, step},
                         .data = made->sums.data};
    call.src[1] = p->call->src[1];
    call.src[2].data = made->numbers.data;
    call.src[3] = call.dst;
    call.src[3].data = made->residual.data;
    const size_t side = at_side_of(p);
    const float* m = (const float*)(void*)raw->data;
    for (size_t i = 0; i < tiles; ++i, m += wide) {
      device->kernels->wino_out(&call, m, tiles * wide, (int64_t)(i / b->wide / b->high),
                                (int64_t)(i / b->wide % b->high * side), (int64_t)(i % b->wide * side));
    }
  }
  at_store_made(device, p, &made->sums, &pixels, 0, column, columns);
}

static void run_by_columns(work* w, size_t column, size_t columns) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const at_sizes sizes = at_sizes_of(p, w->plan);
  at_made* made = &w->made[0];
  at_region held[2];
  if (at_take(device, 0, (const size_t[]){sizes.weights, sizes.numbers}, 2, held)) return;
  device->tiles.now.loads_weights = 1;
  w->weights = held[0];
  made->numbers = held[1];
  at_load_weights(device, p, &w->weights, 0, p->places, column, columns, 0, p->depth);
  at_load_numbers(device, p, &made->numbers, column, columns, false);
  device->tiles.now.early_cycles = device->tiles.now.cycles[ATALLA_LOAD];
  const size_t blocks = at_blocks(p, w->plan);
  for (size_t i = 0; i < blocks && !device->failure; ++i) {
    const at_block_of_rows b = at_block_number(p, w->plan, i), pixels = pixels_of(p, &b);
    at_region frame[5];
    const size_t bytes[5] = {sizes.rows, sizes.spread, sizes.raw, sizes.sums, sizes.residual};
    if (at_take(device, 1, bytes, 5, frame)) return;
    device->tiles.now.begins_frame = 1;
    w->image = frame[0];
    w->spread = frame[1];
    made->sums = frame[3];
    made->residual = frame[4];
    load_tiles(w, &b, 0, p->depth);
    at_load_residual(device, p, made, &pixels, 0, column, columns);
    begin(w, at_rows_of(&b), columns);
    multiply(w, &b, 0, p->places, columns, 0, p->depth);
    finish(w, &b, &frame[2], made, column, columns);
    at_give(device, (at_region*[]){&w->image, &w->spread, &frame[2], &made->sums, &made->residual}, 5);
    at_end_tile(device);
  }
  at_give(device, (at_region*[]){&w->weights, &made->numbers}, 2);
}

static void run_chunk(work* w, const at_block_of_rows* b, unsigned slot, size_t column) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const at_plan* plan = w->plan;
  const size_t columns = p->columns - column < plan->chunk ? p->columns - column : plan->chunk;
  const size_t weights = at_sizes_of(p, plan).weights;
  const at_block_of_rows pixels = pixels_of(p, b);
  at_made* made = &w->made[slot];
  begin(w, at_rows_of(b), columns);
  for (size_t from = 0; from < p->depth && !device->failure; from += plan->piece) {
    const size_t to = p->depth - from < plan->piece ? p->depth : from + plan->piece;
    for (size_t place = 0; place < p->places && !device->failure; place += plan->places) {
      if (from || place) at_end_tile(device);
      if (!plan->is_whole && place == 0) load_tiles(w, b, from, to);
      if (at_take(device, 0, &weights, 1, &w->weights)) return;
      device->tiles.now.loads_weights = 1;
      at_load_weights(device, p, &w->weights, place, plan->places, column, columns, from, to);
      multiply(w, b, place, plan->places, columns, from, to);
      at_give(device, (at_region*[]){&w->weights}, 1);
    }
  }
  at_load_numbers(device, p, &made->numbers, column, columns, true);
  at_load_residual(device, p, made, &pixels, 0, column, columns);
  finish(w, b, &w->raw[slot], made, column, columns);
  at_end_tile(device);
}

static void run_by_rows(work* w, const at_block_of_rows* b) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const at_plan* plan = w->plan;
  const at_sizes sizes = at_sizes_of(p, plan);
  size_t bytes[2 + 4 * 2] = {sizes.rows, sizes.spread}, count = 2;
  at_region held[2 + 4 * 2];
  for (size_t i = 0; i < plan->ring; ++i) {
    bytes[count++] = sizes.raw;
    bytes[count++] = sizes.sums;
    bytes[count++] = sizes.residual;
    bytes[count++] = sizes.numbers;
  }
  if (at_take(device, 1, bytes, count, held)) return;
  device->tiles.now.begins_frame = 1;
  w->image = held[0];
  w->spread = held[1];
  for (size_t i = 0; i < plan->ring; ++i) {
    const at_region* of = held + 2 + 4 * i;
    w->raw[i] = of[0];
    w->made[i] = (at_made){.sums = of[1], .residual = of[2], .numbers = of[3]};
  }
  if (plan->is_whole) load_tiles(w, b, 0, p->depth);
  for (size_t column = 0, i = 0; column < p->columns && !device->failure; column += plan->chunk, ++i) {
    run_chunk(w, b, (unsigned)(i % plan->ring), column);
  }
  if (device->failure) return;
  at_region* given[2 + 4 * 2] = {&w->image, &w->spread};
  count = 2;
  for (size_t i = 0; i < plan->ring; ++i) {
    given[count++] = &w->raw[i];
    given[count++] = &w->made[i].sums;
    given[count++] = &w->made[i].residual;
    given[count++] = &w->made[i].numbers;
  }
  at_give(device, given, count);
}

void at_run_wino(at_device* device, const at_product* p, const at_plan* plan) {
  work w = {.device = device, .product = p, .plan = plan};
  if (plan->by_columns) {
    for (size_t column = 0; column < p->columns && !device->failure; column += plan->chunk) {
      run_by_columns(&w, column, p->columns - column < plan->chunk ? p->columns - column : plan->chunk);
    }
    return;
  }
  const size_t blocks = at_blocks(p, plan);
  for (size_t i = 0; i < blocks && !device->failure; ++i) {
    const at_block_of_rows b = at_block_number(p, plan, i);
    run_by_rows(&w, &b);
  }
}
