// The matrix unit: see "matrix.h".
//
// Of float32 each row of sums is two: that of the slice of the depth that is under way, a chain of fused operations
// from its first product on, and the total of the slices before it. So the bits are those of "kernels/product.h",
// whatever parts the depth is loaded in.
#include "matrix.h"

#include <string.h>

enum { FED = 256 };  // depth that is fed at once, a multiple of 32

size_t at_sums_bytes(const atalla_hardware* hardware) {
  return hardware->accumulator_rows * at_columns_apart(hardware) * sizeof(float);
}

void at_begin_sums(at_device* device, const at_sums* s, const float* bias) {
  const size_t apart = at_columns_apart(&device->hardware);
  float* at = device->running + s->base * apart;
  for (size_t r = 0; r < s->rows; ++r, at += apart) {
    memset(at, 0, apart * sizeof *at);
    if (bias) memcpy(at, bias + s->column, s->columns * sizeof *at);
  }
}

static void fill(char* at, size_t element, int64_t pad, size_t count) {
  if (element == 1) {
    memset(at, (int)pad, count);
  } else {
    memset(at, 0, count * element);
  }
}

// One tap of all rows, channels `first` to `first + count`, `at` and then each `pitch` bytes.
static void find_tap(const at_product* p, const at_rows* rows, size_t tap, size_t first, size_t count, char* at,
                     size_t pitch) {
  const int64_t* words = p->call->words;
  const at_view* src = &p->call->src[0];
  const at_block_of_rows* b = &rows->block;
  const int64_t *step = rows->box.scratchpad, wide = words[AT_CONV2D_KERNEL_W];
  const int64_t down = (int64_t)tap / wide * words[AT_CONV2D_DILATION_H] - words[AT_CONV2D_TOP];
  const int64_t right = (int64_t)tap % wide * words[AT_CONV2D_DILATION_W] - words[AT_CONV2D_LEFT];
  const size_t size = p->element;
  for (size_t n = 0; n < b->images; ++n) {
    for (size_t y = 0; y < b->high; ++y) {
      const int64_t line = (int64_t)(b->y + y) * words[AT_CONV2D_STRIDE_H] + down;
      const int64_t place = (int64_t)n * step[0] + (line - rows->patch.y) * step[1] + (int64_t)first * step[3];
      for (size_t x = 0; x < b->wide; ++x, at += pitch) {
        const int64_t pixel = (int64_t)(b->x + x) * words[AT_CONV2D_STRIDE_W] + right;
        if (line < 0 || line >= src->dim[2] || pixel < 0 || pixel >= src->dim[3]) {
          fill(at, size, p->pad, count);
          continue;
        }
        const char* from = rows->data + (size_t)(place + (pixel - rows->patch.x) * step[2]) * size;
        if (step[3] == 1) {
          memcpy(at, from, count * size);
          continue;
        }
        for (size_t c = 0; c < count; ++c) memcpy(at + c * size, from + (int64_t)c * step[3] * (int64_t)size, size);
      }
    }
  }
}

// The rows as they enter the unit, one behind the other; where, and how far apart, in elements.
static const char* feed_rows(at_device* device, const at_sums* s, const at_rows* rows, size_t from, size_t to,
                             size_t* pitch) {
  const at_product* p = s->product;
  if (rows->is_laid) {
    *pitch = rows->pitch;
    return rows->data + (from - rows->first) * p->element;
  }
  *pitch = to - from;
  if (!at_grow(&device->rows, &device->rows_bytes, s->rows * *pitch * p->element)) return NULL;
  for (size_t at = from; at < to;) {
    const size_t tap = at / p->channels, first = at % p->channels;
    const size_t count = p->channels - first < to - at ? p->channels - first : to - at;
    find_tap(p, rows, tap, first, count, device->rows + (at - from) * p->element, *pitch * p->element);
    at += count;
  }
  return device->rows;
}

// Weights as they enter the unit, [depth][columns], of panels of steps; `from` counts from where the panels begin.
static const char* feed_weights(at_device* device, const at_sums* s, const char* panels, size_t steps, size_t from,
                                size_t to) {
  const at_product* p = s->product;
  const size_t apart = at_columns_apart(&device->hardware), size = p->element, lane_bytes = p->quad * size;
  if (!at_grow(&device->weights, &device->weights_bytes, (to - from) * apart * size)) return NULL;
  memset(device->weights, 0, (to - from) * apart * size);
  for (size_t done = 0; done < s->columns;) {
    const size_t column = s->column + done, lane = column % AT_PANEL;
    const size_t count = AT_PANEL - lane < s->columns - done ? AT_PANEL - lane : s->columns - done;
    const char* panel = panels + column / AT_PANEL * steps * AT_LINE + lane * lane_bytes;
    for (size_t k = from; k < to; ++k) {
      const char* step = panel + k / p->quad * AT_LINE + k % p->quad * size;
      char* at = device->weights + ((k - from) * apart + done) * size;
      if (p->quad == 1) {
        memcpy(at, step, count * size);
      } else if (size == 1) {
        for (size_t c = 0; c < count; ++c) at[c] = step[c * AT_QUAD];
      } else {
        for (size_t c = 0; c < count; ++c) memcpy(at + c * size, step + c * lane_bytes, size);
      }
    }
    done += count;
  }
  return device->weights;
}

static int multiply(at_device* device, const at_product* p, atalla_matrix_tile* tile) {
  const atalla_matrix_unit* unit = &device->unit;
  if (p->dtype == AT_F32) return device->kernels->f32(NULL, tile);
  if (p->dtype == AT_I8) return unit->int8 ? unit->int8(unit->int8_unit, tile) : device->kernels->int8(NULL, tile);
  return unit->bf16 ? unit->bf16(unit->bf16_unit, tile) : device->kernels->bf16(NULL, tile);
}

// A slice of float32 is whole: it is added to those before it.
static void end_slice(const at_device* device, const at_sums* s, bool is_first) {
  const size_t apart = at_columns_apart(&device->hardware), count = s->rows * apart;
  float *running = device->running + s->base * apart, *total = device->total + s->base * apart;
  for (size_t i = 0; i < count; ++i) {
    total[i] = is_first ? running[i] : running[i] + total[i];
    running[i] = 0.0f;
  }
}

void at_add_products(at_device* device, const at_sums* s, const at_rows* rows, const char* weights, size_t from,
                     size_t to) {
  const at_product* p = s->product;
  const size_t apart = at_columns_apart(&device->hardware), steps = at_parts(to - from, p->quad);
  const bool is_others =
      p->dtype == AT_I8 ? device->unit.int8 != NULL : p->dtype == AT_BF16 && device->unit.bf16 != NULL;
  for (size_t at = from; at < to && !device->failure;) {
    const size_t slice = at_slice_end(p, at), most = is_others ? to : at + FED;
    size_t end = slice < to ? slice : to;
    if (end > most) end = most;
    size_t pitch = 0;
    const char* a = feed_rows(device, s, rows, at, end, &pitch);
    const char* b = feed_weights(device, s, weights, steps, at - from, end - from);
    if (!a || !b) {
      device->failure = ATALLA_OUT_OF_MEMORY;
      return;
    }
    atalla_matrix_tile tile = {.struct_size = sizeof tile,
                               .a = a,
                               .a_stride = (int64_t)pitch,
                               .b = b,
                               .b_row_stride = (int64_t)apart,
                               .b_column_stride = 1,
                               .sums = device->running + s->base * apart,
                               .sums_stride = (int64_t)apart,
                               .m = (int64_t)s->rows,
                               .k = (int64_t)(end - at),
                               .n = (int64_t)s->columns,
                               .accumulate = at > 0 || (p->dtype != AT_I8 && p->has_bias)};
    if (multiply(device, p, &tile)) {
      device->failure = ATALLA_HOST_FAILED;
      return;
    }
    if (is_others) {
      device->counters->unit_edges += tile.compute_edges;
      if (device->compares && tile.compute_edges != at_chain_cycles(&device->hardware, p, s->rows, at, end)) {
        device->failure = ATALLA_OTHER_EDGES;
      }
    }
    if (p->dtype == AT_F32 && end == slice) end_slice(device, s, at_slice_end(p, 0) == slice);
    at = end;
  }
}

void at_drain_sums(at_device* device, const at_sums* s, char* to) {
  const size_t apart = at_columns_apart(&device->hardware);
  const float* from =
      (s->product->dtype == AT_F32 && s->product->depth ? device->total : device->running) + s->base * apart;
  float* at = (float*)(void*)to + s->column;
  for (size_t r = 0; r < s->rows; ++r, at += s->wide, from += apart) memcpy(at, from, s->columns * sizeof *at);
}
