// Products, tile by tile: what is loaded when, multiplied, finished and stored. Winograd's are in "wino.c".
#include <string.h>

#include "costs.h"
#include "matrix.h"
#include "parts.h"
#include "scratchpad.h"
#include "timeline.h"

// What is under way: the regions that are held, and what they hold.
typedef struct {
  at_device* device;
  const at_product* product;
  const at_plan* plan;
  size_t group;
  at_region weights, rows[2];
  at_made made[2];
} work;

// Loads the depth from `from` to `to` of a block's rows.
static void load_rows(const work* w, at_region* region, at_rows* rows, const at_block_of_rows* b, size_t from,
                      size_t to) {
  at_device* device = w->device;
  const at_product* p = w->product;
  *rows =
      (at_rows){.data = region->data, .is_laid = !w->plan->is_patch, .pitch = to - from, .first = from, .block = *b};
  at_cost cost = {0, 0, 0};
  if (!p->is_window) {
    const at_box box = at_rows_box(p, b, to - from);
    cost = at_box_cost(&device->hardware, &box);
    if (at_moves_data(device)) {
      const size_t at = w->group * p->channels + from;
      at_box_load(&box, at_row_address(&p->call->src[0], &p->from, b, at, p->source), region->data);
    }
  } else if (w->plan->is_patch) {
    rows->patch = at_patch_of(p, b);
    rows->box = at_patch_box(p, b, &rows->patch, p->channels);
    cost = at_box_cost(&device->hardware, &rows->box);
    if (at_moves_data(device)) {
      at_box_load(&rows->box, at_pixel_address(p, b, rows->patch.y, rows->patch.x, w->group * p->channels),
                  region->data);
    }
  } else {
    cost = at_lay_rows(device, p, b, w->group, from, to, region->data);
  }
  at_load(device, cost, region);
}

static at_sums sums_of(const work* w, size_t rows, size_t column, size_t wide, size_t base) {
  const size_t size = w->device->hardware.array;
  return (at_sums){.product = w->product,
                   .rows = rows,
                   .base = base,
                   .column = column,
                   .columns = wide - column < size ? wide - column : size,
                   .wide = wide};
}

static void begin(work* w, const at_sums* s, at_made* made) {
  at_device* device = w->device;
  const bool has_bias = w->product->has_bias;
  if (has_bias) at_issue_matrix(device, AT_MXU_SET, s->rows, &made->numbers, NULL, NULL);
  if (at_moves_data(device)) at_begin_sums(device, s, has_bias ? (const float*)(void*)made->numbers.data : NULL);
}

static void multiply(work* w, const at_sums* s, const at_rows* rows, at_region* of_rows, size_t from, size_t to) {
  at_device* device = w->device;
  const uint64_t cycles = at_chain_cycles(&device->hardware, w->product, s->rows, from, to);
  if (from == to) return;
  at_issue_matrix(device, AT_MXU_MM, cycles, of_rows, &w->weights, NULL);
  device->counters->matrix_cycles += cycles;
  device->counters->macs += (uint64_t)s->rows * (to - from) * s->columns;
  if (at_moves_data(device)) at_add_products(device, s, rows, w->weights.data, from, to);
}

static void drain(work* w, const at_sums* s, at_made* made) {
  at_issue_matrix(w->device, AT_MXU_DRAIN, s->rows, NULL, NULL, &made->sums);
  if (at_moves_data(w->device)) at_drain_sums(w->device, s, made->sums.data);
}

// Weights of a chunk stay, and all rows pass.
static void run_by_columns(work* w, size_t column, size_t columns) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const at_sizes sizes = at_sizes_of(p, w->plan);
  at_region held[2];
  if (at_take(device, 0, (const size_t[]){sizes.weights, sizes.numbers}, 2, held)) return;
  device->tiles.now.loads_weights = 1;
  w->weights = held[0];
  at_made* made = &w->made[0];
  made->numbers = held[1];
  at_load_weights(device, p, &w->weights, w->group, 1, column, columns, 0, p->depth);
  at_load_numbers(device, p, &made->numbers, w->group * p->columns + column, columns, false);
  device->tiles.now.early_cycles = device->tiles.now.cycles[ATALLA_LOAD];
  const size_t blocks = at_blocks(p, w->plan);
  for (size_t i = 0; i < blocks && !device->failure; ++i) {
    const at_block_of_rows b = at_block_number(p, w->plan, i);
    at_region frame[4];
    if (at_take(device, 1, (const size_t[]){sizes.rows, sizes.sums, sizes.residual, sizes.made}, 4, frame)) return;
    device->tiles.now.begins_frame = 1;
    made->sums = frame[1];
    made->residual = frame[2];
    made->made = frame[3];
    at_rows rows;
    load_rows(w, &frame[0], &rows, &b, 0, p->depth);
    at_load_residual(device, p, made, &b, w->group, column, columns);
    for (size_t at = 0; at < columns; at += device->hardware.array) {
      const at_sums s = sums_of(w, at_rows_of(&b), at, columns, 0);
      begin(w, &s, made);
      multiply(w, &s, &rows, &frame[0], 0, p->depth);
      drain(w, &s, made);
    }
    at_finish_rows(device, p, made, &b, w->group, column, columns);
    at_give(device, (at_region*[]){&frame[0], &made->sums, &made->residual, &made->made}, 4);
    at_end_tile(device);
  }
  at_give(device, (at_region*[]){&w->weights, &made->numbers}, 2);
}

// One chunk of a block whose rows stay, or are loaded part by part.
static void run_chunk(work* w, const at_block_of_rows* b, at_rows* rows, at_made* made, size_t column, size_t* part) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const at_plan* plan = w->plan;
  const size_t columns = p->columns - column < plan->chunk ? p->columns - column : plan->chunk;
  const size_t size = device->hardware.array, high = at_rows_of(b), weights = at_sizes_of(p, plan).weights;
  const bool is_first = p->dtype != AT_I8;  // sums begin with the bias; what comes after them is loaded after weights
  const size_t number = w->group * p->columns + column;
  if (is_first) at_load_numbers(device, p, &made->numbers, number, columns, false);
  for (size_t at = 0; at < columns; at += size) {
    const at_sums s = sums_of(w, high, at, columns, at / size * high);
    begin(w, &s, made);
  }
  for (size_t from = 0; from < p->depth && !device->failure; from += plan->piece) {
    const size_t to = p->depth - from < plan->piece ? p->depth : from + plan->piece;
    if (from) at_end_tile(device);
    at_region* of_rows = &w->rows[plan->is_whole ? 0 : (*part)++ % plan->ring];
    if (!plan->is_whole) load_rows(w, of_rows, rows, b, from, to);
    if (at_take(device, 0, &weights, 1, &w->weights)) return;
    device->tiles.now.loads_weights = 1;
    at_load_weights(device, p, &w->weights, w->group, 1, column, columns, from, to);
    for (size_t at = 0; at < columns; at += size) {
      const at_sums s = sums_of(w, high, at, columns, at / size * high);
      multiply(w, &s, rows, of_rows, from, to);
    }
    at_give(device, (at_region*[]){&w->weights}, 1);
  }
  if (!is_first) at_load_numbers(device, p, &made->numbers, number, columns, true);
  at_load_residual(device, p, made, b, w->group, column, columns);
  for (size_t at = 0; at < columns; at += size) {
    const at_sums s = sums_of(w, high, at, columns, at / size * high);
    drain(w, &s, made);
  }
  at_finish_rows(device, p, made, b, w->group, column, columns);
  at_end_tile(device);
}

static void run_by_rows(work* w, const at_block_of_rows* b) {
  at_device* device = w->device;
  const at_product* p = w->product;
  const at_plan* plan = w->plan;
  const at_sizes sizes = at_sizes_of(p, plan);
  size_t bytes[2 + 4 * 2], count = 0;
  at_region held[2 + 4 * 2];
  const size_t copies = plan->is_whole ? 1 : plan->ring;
  for (size_t i = 0; i < copies; ++i) bytes[count++] = sizes.rows;
  for (size_t i = 0; i < plan->ring; ++i) {
    bytes[count++] = sizes.sums;
    bytes[count++] = sizes.residual;
    bytes[count++] = sizes.made;
    bytes[count++] = sizes.numbers;
  }
  if (at_take(device, 1, bytes, count, held)) return;
  device->tiles.now.begins_frame = 1;
  for (size_t i = 0; i < copies; ++i) w->rows[i] = held[i];
  for (size_t i = 0; i < plan->ring; ++i) {
    const at_region* of = held + copies + 4 * i;
    w->made[i] = (at_made){.sums = of[0], .residual = of[1], .made = of[2], .numbers = of[3]};
  }
  at_rows rows = {.data = NULL};
  size_t part = 0;
  if (plan->is_whole) load_rows(w, &w->rows[0], &rows, b, 0, p->depth);
  for (size_t column = 0, i = 0; column < p->columns && !device->failure; column += plan->chunk, ++i) {
    run_chunk(w, b, &rows, &w->made[i % plan->ring], column, &part);
  }
  if (device->failure) return;
  at_region* given[2 + 4 * 2];
  count = 0;
  for (size_t i = 0; i < copies; ++i) given[count++] = &w->rows[i];
  for (size_t i = 0; i < plan->ring; ++i) {
    given[count++] = &w->made[i].sums;
    given[count++] = &w->made[i].residual;
    given[count++] = &w->made[i].made;
    given[count++] = &w->made[i].numbers;
  }
  at_give(device, given, count);
}

void at_run_product(at_device* device, const at_product* p, const at_plan* plan) {
  const at_slots slots = at_slots_of(&device->hardware, p, plan, device->scratchpads[0].room);
  device->counters->frames = (uint32_t)slots.frames;
  device->counters->ring = plan->by_columns ? 0 : plan->ring;
  device->counters->parts = plan->is_whole || p->is_wino ? 0 : plan->ring;
  device->counters->weight_slots = (uint32_t)slots.weights;
  if (p->is_wino) {
    at_run_wino(device, p, plan);
    return;
  }
  work w = {.device = device, .product = p, .plan = plan};
  for (w.group = 0; w.group < p->groups && !device->failure; ++w.group) {
    if (plan->by_columns) {
      for (size_t column = 0; column < p->columns && !device->failure; column += plan->chunk) {
        run_by_columns(&w, column, p->columns - column < plan->chunk ? p->columns - column : plan->chunk);
      }
      continue;
    }
    const size_t blocks = at_blocks(p, plan);
    for (size_t i = 0; i < blocks && !device->failure; ++i) {
      const at_block_of_rows b = at_block_number(p, plan, i);
      run_by_rows(&w, &b);
    }
  }
}
