// DWCONV2D and QDWCONV2D: one filter a channel; channels are innermost, so a vector holds neighbours of one pixel.
//
//   out[y][x][c] = act(Σ_i Σ_j in[y·s + i][x·s + j][c] · w[i·KW + j][c] + bias[c] (+ residual))
//
// Of int8, too, sums are float32: they are whole numbers below 2^24, so nothing is lost; see AT_MOST_TAPS.
//
// A column of the input is found through a pointer, for each line that is read; beyond the image it points to zeros.
// PIXELS neighbours share what they read of a line, and two rows the lines that both read. Where taps are dilated,
// those are neighbours that lie as far apart as taps do: each class of such columns has its pointers by itself.
#pragma once

#include "depthwise_tile.h"

typedef struct {
  const at_call* call;
  size_t channels, reach;  // columns of the input that a row of the output reads, of all classes
  int64_t classes;         // of columns; 1 where taps are no further apart than pixels, or there are no tiles
  activation act;          // of int8 the bounds
  int64_t zero;
  int is_int8;
  const char* weight;
  void (*tiles)(const dw_rows*);  // or NULL
  int64_t together, items;        // rows of the output that are made at once, and how often for an image
  int64_t ring, origin;           // lines of the source that are there, which go round, and the first ever; 0: all
} dw_job;

INLINE size_t dw_reach(const at_call* call) {
  const int64_t* words = call->words;
  const int64_t reach = (call->dst.dim[3] - 1) * words[AT_DWCONV2D_STRIDE_W] +
                        (words[AT_DWCONV2D_KERNEL_W] - 1) * words[AT_DWCONV2D_DILATION_W] + 1;
  return reach > 0 ? (size_t)reach : 0;
}

// The function of a filter's width and stride, if there is one.
INLINE void (*dw_tiles_of(const dw_job* job))(const dw_rows*) {
  const at_call* call = job->call;
  const int64_t *words = call->words, width = words[AT_DWCONV2D_KERNEL_W], stride = words[AT_DWCONV2D_STRIDE_W];
  const int64_t dilation = words[AT_DWCONV2D_DILATION_W];
  const int fills = (!job->is_int8 || job->channels >= VL) && call->dst.dim[3] / dilation >= PIXELS;
  if (!fills || width > MOST_WIDTH || stride > MOST_STRIDE || (dilation > 1 && stride > 1)) return NULL;
  return DW_TILES[width][stride][job->is_int8 ? DW_INT8 : dw_kind_of(job->act.act)];
}

// Lines of the input, each with its pointers, that so many rows of the output read.
INLINE int64_t dw_lines(const at_call* call, int64_t rows) {
  return call->words[AT_DWCONV2D_KERNEL_H] + (rows - 1) * call->words[AT_DWCONV2D_STRIDE_H];
}

INLINE dw_job dw_job_of(const at_call* call) {
  dw_job job = {
      .call = call, .channels = (size_t)call->dst.dim[1], .reach = dw_reach(call), .weight = call->src[1].data};
  const int64_t* words = call->words;
  job.is_int8 = call->src[0].dtype == AT_I8;
  if (job.is_int8) {
    const int64_t* made = words + AT_QDWCONV2D_ZERO;
    job.zero = made[0];
    job.act = (activation){.act = AT_ACT_CLAMP, .low = (float)at_number(made[1]), .high = (float)at_number(made[2])};
  } else {
    job.act = read_activation(words + AT_DWCONV2D_ACT);
  }
  job.tiles = dw_tiles_of(&job);
  job.classes = job.tiles ? words[AT_DWCONV2D_DILATION_W] : 1;
  job.reach = (job.reach + (size_t)job.classes - 1) / (size_t)job.classes * (size_t)job.classes;
  // Two rows read the lines once that both need; their lines are neighbours then.
  const int share = words[AT_DWCONV2D_DILATION_H] == 1 && words[AT_DWCONV2D_STRIDE_H] < words[AT_DWCONV2D_KERNEL_H];
  job.together = job.tiles && share ? DW_ROWS : 1;
  job.items = (call->dst.dim[2] + job.together - 1) / job.together;
  return job;
}

static size_t dw_need(const at_call* call) {
  const dw_job job = dw_job_of(call);
  const unsigned __int128 pointers = (unsigned __int128)dw_lines(call, job.together) * job.reach;
  return at_bytes(pointers * sizeof(float*) + (size_t)call->dst.dim[1] * sizeof(float) + AT_LINE);
}

// Finds all columns of the lines that rows of the output read from row `y` on; those inside of the image are a span.
static span dw_find(const dw_job* job, int64_t n, int64_t y, int64_t lines, char* zeros, const char** columns) {
  const at_call* call = job->call;
  const at_view* src = &call->src[0];
  const int64_t *words = call->words, size = job->is_int8 ? 1 : sizeof(float), reach = (int64_t)job->reach;
  const int64_t left = words[AT_DWCONV2D_LEFT], step = src->stride[3] * size;
  const char* image = src->data + n * src->stride[0] * size;
  span inside = {lines, 0};
  for (int64_t i = 0; i < lines; ++i, columns += reach) {
    const int64_t row = y * words[AT_DWCONV2D_STRIDE_H] - words[AT_DWCONV2D_TOP] + i * words[AT_DWCONV2D_DILATION_H];
    const int is_row = row >= 0 && row < src->dim[2];
    if (!is_row && !job->is_int8) continue;  // of int8, sums begin with what all taps of the zero point add
    if (i < inside.from) inside.from = i;
    inside.to = i + 1;
    const span in = is_row ? span_inside(-left, 1, src->dim[3], reach) : (span){reach, reach};
    const int64_t at_line = job->ring ? (row - job->origin) % job->ring : row;
    const char* line = is_row ? image + at_line * src->stride[2] * size : NULL;
    if (job->classes > 1) {
      const char** to = columns;
      for (int64_t class = 0; class < job->classes; ++class) {
        for (int64_t at = class; at < reach; at += job->classes) {
          *to++ = at >= in.from && at < in.to ? line + (at - left) * step : zeros;
        }
      }
      continue;
    }
    for (int64_t at = 0; at < in.from; ++at) columns[at] = zeros;
    for (int64_t at = in.from; at < in.to; ++at) columns[at] = line + (at - left) * step;
    for (int64_t at = in.to; at < reach; ++at) columns[at] = zeros;
  }
  if (inside.from > inside.to) inside.from = inside.to;
  return inside;
}

// Every class of columns is an image of its own.
INLINE void dw_classes(const dw_job* job, dw_rows all, int64_t out_size) {
  const int64_t classes = job->classes, wide = all.wide, pixel = all.out_pixel, residual_pixel = all.residual_pixel;
  all.out_pixel *= classes;
  all.residual_pixel *= classes;
  for (int64_t class = 0; class < classes; ++class) {
    all.wide = (wide - class + classes - 1) / classes;
    job->tiles(&all);
    all.columns += job->reach / (size_t)classes;
    all.out += pixel * out_size;
    if (all.residual) all.residual += residual_pixel;
  }
}

static void dw_item(void* argument, size_t item, unsigned thread) {
  const dw_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *res = &call->src[3];
  const int64_t *words = call->words, out_size = dst->dtype == AT_I8 ? 1 : sizeof(float);
  const int64_t n = (int64_t)item / job->items, y = (int64_t)item % job->items * job->together;
  const int64_t rows = dst->dim[2] - y < job->together ? dst->dim[2] - y : job->together;
  const int has_residual = !job->is_int8 && call->present >> 3 & 1;
  const char** columns = (const char**)(void*)(call->scratch + thread * call->scratch_bytes);
  char* zeros = (char*)(columns + (size_t)dw_lines(call, job->together) * job->reach);
  memset(zeros, (int)job->zero, job->channels * (job->is_int8 ? 1 : sizeof(float)));
  const span inside = dw_find(job, n, y, dw_lines(call, rows), zeros, columns);
  dw_rows b = {.columns = columns,
               .from = inside.from,
               .to = inside.to,
               .reach = job->reach,
               .rows = rows,
               .wide = dst->dim[3],
               .down = words[AT_DWCONV2D_STRIDE_H],
               .weight = job->weight,
               .bias = !job->is_int8 && call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL,
               .out = dst->data + (n * dst->stride[0] + y * dst->stride[2]) * out_size,
               .out_row = dst->stride[2],
               .out_pixel = dst->stride[3],
               .channels = job->channels,
               .kernel_h = words[AT_DWCONV2D_KERNEL_H],
               .kernel_w = words[AT_DWCONV2D_KERNEL_W],
               .stride = words[AT_DWCONV2D_STRIDE_W],
               .dilation = words[AT_DWCONV2D_DILATION_W],
               .act = job->act};
  if (has_residual) {
    b.residual = (float*)(void*)res->data + n * res->stride[0] + y * res->stride[2];
    b.residual_row = res->stride[2];
    b.residual_pixel = res->stride[3];
  }
  if (job->is_int8) {
    b.sums = (const int32_t*)(const void*)call->src[2].data;
    b.scale = (const float*)(const void*)call->src[3].data;
    b.offset = (const float*)(const void*)call->src[4].data;
    b.zero = (float)job->zero;
    b.out_int8 = dst->dtype == AT_I8;
  }
  if (job->tiles) {
    dw_classes(job, b, out_size);
  } else {
    dw_pixels(&b);
  }
  if (is_bounds(job->act.act) || job->act.act == AT_ACT_HARDSWISH) return;
  for (int64_t i = 0; i < rows * b.wide; ++i) {
    const int64_t place = i / b.wide * b.out_row + i % b.wide * b.out_pixel;
    activate(job->act.act, (float*)(void*)b.out + place, job->channels);
  }
}

static int dwconv(const at_call* call) {
  if (at_elements(&call->dst) == 0) return 0;
  dw_job job = dw_job_of(call);
  at_pool_run(call->pool, (size_t)(call->dst.dim[0] * job.items), dw_item, &job);
  return 0;
}
