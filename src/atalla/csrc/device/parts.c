// Parts: see "parts.h".
#include "parts.h"

#include <string.h>

#include "../kernels/rows.h"
#include "costs.h"
#include "scratchpad.h"
#include "timeline.h"

static at_box block_box(const at_grid* grid, const at_block_of_rows* b, size_t wide, size_t size) {
  return (at_box){.rank = 4,
                  .size = size,
                  .dim = {(int64_t)b->images, (int64_t)b->high, (int64_t)b->wide, (int64_t)wide},
                  .memory = {grid->outer ? grid->stride[grid->outer - 1] : 0, grid->high, grid->wide, 1},
                  .scratchpad = {(int64_t)(b->high * b->wide * wide), (int64_t)(b->wide * wide), (int64_t)wide, 1}};
}

at_box at_rows_box(const at_product* p, const at_block_of_rows* b, size_t depth) {
  at_box box = block_box(&p->from, b, depth, p->source);
  box.rounds = p->dtype == AT_BF16;
  return box;
}

char* at_row_address(const at_view* view, const at_grid* grid, const at_block_of_rows* b, size_t at, size_t size) {
  const int64_t place = at_image_offset(grid, b->image) + (int64_t)b->y * grid->high + (int64_t)b->x * grid->wide;
  return view->data + (place + (int64_t)at) * (int64_t)size;
}

const char* at_pixel_address(const at_product* p, const at_block_of_rows* b, int64_t y, int64_t x, size_t channel) {
  const at_view* src = &p->call->src[0];
  const int64_t place = (int64_t)b->image * src->stride[0] + y * src->stride[2] + x * src->stride[3];
  return src->data + (place + (int64_t)channel * src->stride[1]) * (int64_t)p->source;
}

at_cost at_lay_rows(at_device* device, const at_product* p, const at_block_of_rows* b, size_t group, size_t from,
                    size_t to, char* at) {
  const int64_t* words = p->call->words;
  const at_view* src = &p->call->src[0];
  const size_t pitch = to - from;
  const bool moves = at_moves_data(device);
  if (moves && p->element == 1) memset(at, (int)p->pad, at_rows_of(b) * pitch);
  if (moves && p->element != 1) memset(at, 0, at_rows_of(b) * pitch * p->element);
  const int64_t down = words[AT_CONV2D_STRIDE_H], right = words[AT_CONV2D_STRIDE_W], wide = words[AT_CONV2D_KERNEL_W];
  at_cost sum = {0, 0, 0};
  for (size_t done = from; done < to;) {
    const size_t tap = done / p->channels, first = done % p->channels;
    const size_t count = p->channels - first < to - done ? p->channels - first : to - done;
    const int64_t y = (int64_t)b->y * down - words[AT_CONV2D_TOP] + (int64_t)tap / wide * words[AT_CONV2D_DILATION_H];
    const int64_t x = (int64_t)b->x * right - words[AT_CONV2D_LEFT] + (int64_t)tap % wide * words[AT_CONV2D_DILATION_W];
    const span lines = span_inside(y, down, src->dim[2], (int64_t)b->high);
    const span pixels = span_inside(x, right, src->dim[3], (int64_t)b->wide);
    const at_box box = {
        .rank = 4,
        .size = p->source,
        .rounds = p->dtype == AT_BF16,
        .dim = {(int64_t)b->images, lines.to - lines.from, pixels.to - pixels.from, (int64_t)count},
        .memory = {src->stride[0], src->stride[2] * down, src->stride[3] * right, src->stride[1]},
        .scratchpad = {(int64_t)(b->high * b->wide * pitch), (int64_t)(b->wide * pitch), (int64_t)pitch, 1}};
    at_add_cost(&sum, at_box_cost(&device->hardware, &box));
    if (moves) {
      const size_t row = (size_t)lines.from * b->wide + (size_t)pixels.from;
      const char* memory =
          at_pixel_address(p, b, y + lines.from * down, x + pixels.from * right, group * p->channels + first);
      at_box_load(&box, memory, at + (row * pitch + (done - from)) * p->element);
    }
    done += count;
  }
  return sum;
}

void at_load_weights(at_device* device, const at_product* p, at_region* region, size_t place, size_t places,
                     size_t column, size_t columns, size_t from, size_t to) {
  const size_t panels = at_parts(p->columns, AT_PANEL), here = at_parts(columns, AT_PANEL);
  const int64_t steps = (int64_t)at_parts(p->depth, p->quad), first = (int64_t)(from / p->quad);
  const int64_t count = (int64_t)at_parts(to, p->quad) - first;
  const at_box box = {.rank = 3,
                      .size = 1,
                      .dim = {(int64_t)places, (int64_t)here, count * AT_LINE},
                      .memory = {(int64_t)panels * steps * AT_LINE, steps * AT_LINE, 1},
                      .scratchpad = {(int64_t)here * count * AT_LINE, count * AT_LINE, 1}};
  at_load(device, at_box_cost(&device->hardware, &box), region);
  if (!at_moves_data(device)) return;
  const size_t panel = place * panels + column / AT_PANEL;
  at_box_load(&box, p->call->src[1].data + ((int64_t)panel * steps + first) * AT_LINE, region->data);
}

void at_load_numbers(at_device* device, const at_product* p, at_region* to, size_t column, size_t columns,
                     bool is_late) {
  const at_call* call = p->call;
  if (p->dtype != AT_I8 && !p->has_bias) return;
  const unsigned last = p->dtype == AT_I8 ? 4 : 2;
  at_cost cost = {0, 0, 0};
  for (unsigned i = 2; i <= last; ++i) {
    const at_box box = {.rank = 1, .size = 4, .dim = {(int64_t)columns}, .memory = {1}, .scratchpad = {1}};
    at_add_cost(&cost, at_box_cost(&device->hardware, &box));
    if (at_moves_data(device)) at_box_load(&box, call->src[i].data + 4 * column, to->data + (i - 2) * 4 * columns);
  }
  at_load(device, cost, to);
  if (is_late) device->tiles.now.late_cycles += cost.cycles;
}

void at_load_residual(at_device* device, const at_product* p, at_made* made, const at_block_of_rows* b, size_t group,
                      size_t column, size_t columns) {
  if (!p->has_residual) return;
  const at_box box = block_box(&p->residual, b, columns, 4);
  const at_cost cost = at_box_cost(&device->hardware, &box);
  at_load(device, cost, &made->residual);
  device->tiles.now.late_cycles += cost.cycles;
  if (!at_moves_data(device)) return;
  const size_t at = group * p->columns + column;
  at_box_load(&box, at_row_address(&p->call->src[3], &p->residual, b, at, 4), made->residual.data);
}

int64_t at_activation_of(const at_product* p) {
  if (p->dtype == AT_I8) return AT_ACT_NONE;
  return p->call->words[p->is_conv ? AT_CONV2D_ACT : AT_GEMM_ACT];
}

static const int64_t* words_of(const at_product* p) {
  const int64_t* words = p->call->words;
  if (p->dtype == AT_I8) return words + (p->is_conv ? AT_QCONV2D_ZERO : AT_QGEMM_ZERO);
  return words + (p->is_conv ? AT_CONV2D_ACT : AT_GEMM_ACT);
}

void at_finish_rows(at_device* device, const at_product* p, at_made* made, const at_block_of_rows* b, size_t group,
                    size_t column, size_t columns) {
  const bool is_int8 = p->dtype == AT_I8;
  const size_t rows = at_rows_of(b);
  at_region* out = is_int8 ? &made->made : &made->sums;
  const at_steps steps = at_finish_steps(is_int8, p->has_residual, at_activation_of(p));
  at_issue(device, &(at_operation){.engine = ATALLA_VECTOR,
                                   .kind = AT_VPU_FINISH,
                                   .cycles = at_vector_cycles(&device->hardware, rows * columns, steps),
                                   .reads = {&made->sums, p->has_residual ? &made->residual : NULL,
                                             is_int8 ? &made->numbers : NULL},
                                   .writes = {out}});
  if (at_moves_data(device)) {
    const char* numbers = made->numbers.data;
    at_finish finish = {.rows = rows,
                        .columns = columns,
                        .sums = made->sums.data,
                        .residual = p->has_residual ? (const float*)(void*)made->residual.data : NULL,
                        .words = words_of(p),
                        .is_bf16 = p->dtype == AT_BF16,
                        .is_int8 = is_int8,
                        .out = out->data,
                        .out_dtype = p->call->dst.dtype};
    if (is_int8) {
      finish.column_sums = (const int32_t*)(const void*)numbers;
      finish.scale = (const float*)(const void*)(numbers + 4 * columns);
      finish.offset = (const float*)(const void*)(numbers + 8 * columns);
    }
    device->kernels->finish(&finish);
  }
  at_store_made(device, p, out, b, group, column, columns);
}

void at_store_made(at_device* device, const at_product* p, at_region* made, const at_block_of_rows* b, size_t group,
                   size_t column, size_t columns) {
  const at_box box = block_box(&p->to, b, columns, p->made);
  at_store(device, at_box_cost(&device->hardware, &box), made);
  if (!at_moves_data(device)) return;
  const size_t at = group * p->columns + column;
  at_box_store(&box, made->data, at_row_address(&p->call->dst, &p->to, b, at, p->made));
}

void at_issue_matrix(at_device* device, unsigned kind, uint64_t cycles, at_region* one, at_region* other,
                     at_region* write) {
  at_issue(device,
           &(at_operation){
               .engine = ATALLA_MATRIX, .kind = kind, .cycles = cycles, .reads = {one, other}, .writes = {write}});
}
