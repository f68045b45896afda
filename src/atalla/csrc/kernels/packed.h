// Packed rows: what products of narrow numbers read. A row is the channels of each tap, one tap behind the other; rows
// lie `pitch` bytes apart. Panels of weights hold some neighbours in depth, 4 bytes, for each of 16 columns.
#pragma once

#include "cut.h"
#include "rows.h"
#include "vec.h"

enum { MOST_PACKED_ROWS = 256, LEAST_PACKED_ROWS = 32, MOST_PACKED_BYTES = 400 << 10, STEP_BYTES = AT_PANEL * AT_LANE };

typedef struct {
  const at_call* call;
  cut cut;
  size_t groups, items;         // items of one group
  size_t columns, depth, taps;  // columns of a group, depth of a tap
  size_t pitch, bytes;          // of a packed row; of an element of the source
  int is_conv;
  int is_dense;  // the taps of a row of the filter are neighbours in memory
} packed_job;

// Some panels of weights, one after the other.
typedef struct {
  const int8_t* weight;
  size_t panels, steps;
  const int32_t* start;  // [panels][16], what sums begin with: int32, or bits of float32
  const int8_t* tail;    // of AMX: [panels], the last steps of each and zeros behind them, where 16 do not divide them
  const char* widened;   // of AVX2, in int8: the one panel's weights in 16 bits, or NULL
  uintptr_t next;        // of AVX2, in int8: what is read after this; each step asks for `share` bytes of it
  size_t share;
} deep_panels;

// Elements of the source, `step` apart, or padding where `from` is NULL, become packed ones; returns where they end.
typedef char* put_elements(const packed_job* job, char* to, const char* from, int64_t step, size_t count);

INLINE size_t rounded_up(size_t count, size_t to) { return (count + to - 1) / to * to; }

// `step` rows are packed at least.
INLINE size_t packed_rows(const packed_job* job, size_t step) {
  const size_t most = MOST_PACKED_BYTES / (job->pitch + 1) / step * step;
  return most < LEAST_PACKED_ROWS ? LEAST_PACKED_ROWS : most > MOST_PACKED_ROWS ? MOST_PACKED_ROWS : most;
}

// Attributes of all convolutions begin with the window's.
INLINE packed_job packed_job_of(const at_call* call, int is_conv, size_t bytes) {
  const at_view *dst = &call->dst, *src = &call->src[0];
  packed_job job = {.call = call, .groups = 1, .taps = 1, .bytes = bytes, .is_conv = is_conv};
  if (is_conv) {
    job.groups = (size_t)call->words[AT_CONV2D_GROUPS];
    job.taps = (size_t)(call->words[AT_CONV2D_KERNEL_H] * call->words[AT_CONV2D_KERNEL_W]);
    const int is_row = call->words[AT_CONV2D_KERNEL_W] == 1 || call->words[AT_CONV2D_DILATION_W] == 1;
    job.is_dense = is_row && src->stride[1] == 1 && src->stride[3] == src->dim[1] && job.groups == 1;
  }
  const unsigned channels = is_conv ? 1 : dst->rank - 1u;
  job.columns = (size_t)dst->dim[channels] / job.groups;
  job.depth = (size_t)src->dim[channels] / job.groups;
  return job;
}

INLINE void cut_packed(packed_job* job, size_t step, size_t wide) {
  const size_t rows = at_elements(&job->call->dst) / (job->columns * job->groups);
  const unsigned threads = at_pool_threads(job->call->pool);
  job->cut = cut_product(rows, job->columns, job->taps * job->depth, threads, packed_rows(job, step), step, wide);
  job->items = job->cut.blocks * job->cut.chunks;
}

// What an item of the job is: rows of a group, and the panels that they are multiplied by.
typedef struct {
  size_t group, first, rows, panel, last;
} packed_item;

INLINE packed_item item_of(const packed_job* job, size_t item) {
  const cut* cut = &job->cut;
  const size_t within = item % job->items, chunk = within % cut->chunks, first = within / cut->chunks * cut->block;
  const size_t panel = chunk * cut->chunk, left = cut->rows - first;
  const size_t last = panel + cut->chunk < cut->panels ? panel + cut->chunk : cut->panels;
  return (packed_item){item / job->items, first, left < cut->block ? left : cut->block, panel, last};
}

// The taps of one row of the filter; `line` is the image's row, `left` the column of the first tap.
INLINE char* pack_line(const packed_job* job, put_elements* put, char* to, const char* line, int64_t left) {
  const at_call* call = job->call;
  const at_view* src = &call->src[0];
  const int64_t kernel = call->words[AT_CONV2D_KERNEL_W], dilation = call->words[AT_CONV2D_DILATION_W];
  const int64_t depth = (int64_t)job->depth, wide = src->dim[3], bytes = (int64_t)job->bytes;
  if (job->is_dense) {
    int64_t from = left < 0 ? -left : 0, to_tap = wide - left < kernel ? wide - left : kernel;
    if (from > kernel) from = kernel;
    if (to_tap < from) to_tap = from;
    to = put(job, to, NULL, 1, (size_t)(from * depth));
    to = put(job, to, line + (left + from) * depth * bytes, 1, (size_t)((to_tap - from) * depth));
    return put(job, to, NULL, 1, (size_t)((kernel - to_tap) * depth));
  }
  for (int64_t j = 0, column = left; j < kernel; ++j, column += dilation) {
    const int is_inside = column >= 0 && column < wide;
    to = put(job, to, is_inside ? line + column * src->stride[3] * bytes : NULL, src->stride[1], job->depth);
  }
  return to;
}

// `size` is that of a packed element.
INLINE void pack_pixels(const packed_job* job, put_elements* put, size_t size, size_t group, size_t first, size_t rows,
                        char* a) {
  const at_call* call = job->call;
  const at_view *src = &call->src[0], *dst = &call->dst;
  const int64_t *words = call->words, wide = dst->dim[3], high = dst->dim[2], bytes = (int64_t)job->bytes;
  const char* whole = src->data + group * job->depth * job->bytes;
  const size_t taps = (size_t)words[AT_CONV2D_KERNEL_W] * job->depth;  // elements of a row of the filter
  for (size_t done = 0; done < rows;) {                                // pixels of one line of the output
    const int64_t pixel = (int64_t)(first + done), x = pixel % wide, y = pixel / wide % high, n = pixel / wide / high;
    const size_t count = (size_t)(wide - x) < rows - done ? (size_t)(wide - x) : rows - done;
    for (int64_t i = 0; i < words[AT_CONV2D_KERNEL_H]; ++i) {
      const int64_t row = y * words[AT_CONV2D_STRIDE_H] - words[AT_CONV2D_TOP] + i * words[AT_CONV2D_DILATION_H];
      const char* line = whole + (n * src->stride[0] + row * src->stride[2]) * bytes;
      char* to = a + done * job->pitch + (size_t)i * taps * size;
      if (row < 0 || row >= src->dim[2]) {
        for (size_t r = 0; r < count; ++r, to += job->pitch) put(job, to, NULL, 1, taps);
        continue;
      }
      // Of dense taps, all pixels but those at the edges are alike.
      const int64_t stride = words[AT_CONV2D_STRIDE_W], left = x * stride - words[AT_CONV2D_LEFT];
      const int64_t last = src->dim[3] - words[AT_CONV2D_KERNEL_W] + 1, all = (int64_t)count;
      const span alike = job->is_dense ? span_inside(left, stride, last, all) : (span){all, all};
      int64_t r = 0;
      for (; r < alike.from; ++r, to += job->pitch) pack_line(job, put, to, line, left + r * stride);
      const int64_t pixel_bytes = (int64_t)job->depth * bytes;
      const char* from = line + (left + r * stride) * pixel_bytes;
      for (; r < alike.to; ++r, to += job->pitch, from += stride * pixel_bytes) put(job, to, from, 1, taps);
      for (; r < all; ++r, to += job->pitch) pack_line(job, put, to, line, left + r * stride);
    }
    done += count;
  }
}

INLINE void pack_rows(const packed_job* job, put_elements* put, size_t first, size_t rows, char* a) {
  const at_view* src = &job->call->src[0];
  const way from = way_of(src);
  row_place place = place_of(&from, first);
  for (size_t r = 0; r < rows; ++r, next_row(&from, &place), a += job->pitch) {
    put(job, a, src->data + place.offset * (int64_t)job->bytes, 1, job->depth);
  }
}

// Where rows of a tensor of dst's shape begin.
INLINE void find_places(const packed_job* job, const at_view* view, size_t first, size_t rows, int64_t* at) {
  const way to = job->is_conv ? pixels_of(view, &job->call->dst, 1, 1) : way_of(view);
  if (to.rank && is_even(&to)) {
    const int64_t step = to.stride[to.rank - 1];
    for (size_t r = 0; r < rows; ++r) at[r] = (int64_t)(first + r) * step;
    return;
  }
  row_place place = place_of(&to, first);
  for (size_t r = 0; r < rows; ++r, next_row(&to, &place)) at[r] = place.offset;
}
