// CONV2D: a product whose rows are pixels; each tap of the filter finds its row of channels through a pointer.
#pragma once

#include "stem.h"

typedef struct {
  const at_call* call;
  cut cut;
  size_t taps, depth, columns, groups;
  size_t items;  // of one group
} conv_job;

static size_t conv_need(const at_call* call) {
  if (suits_stem(call)) return stem_need(call);
  const size_t taps = (size_t)(call->words[AT_CONV2D_KERNEL_H] * call->words[AT_CONV2D_KERNEL_W]);
  return taps * MOST_ROWS * sizeof(float*) + (size_t)call->src[0].dim[1] * sizeof(float) + AT_LINE;
}

// The pointers of one pixel of the output: one for each tap, to zeros outside of the image.
INLINE void find_taps(const at_call* call, const float* src, const float* zeros, int64_t y, int64_t x, const float** a,
                      size_t pitch) {
  const at_view* view = &call->src[0];
  const int64_t* words = call->words;
  const int64_t top = y * words[AT_CONV2D_STRIDE_H] - words[AT_CONV2D_TOP];
  const int64_t left = x * words[AT_CONV2D_STRIDE_W] - words[AT_CONV2D_LEFT];
  for (int64_t i = 0; i < words[AT_CONV2D_KERNEL_H]; ++i) {
    const int64_t row = top + i * words[AT_CONV2D_DILATION_H];
    const int inside = row >= 0 && row < view->dim[2];
    for (int64_t j = 0; j < words[AT_CONV2D_KERNEL_W]; ++j, a += pitch) {
      const int64_t column = left + j * words[AT_CONV2D_DILATION_W];
      *a = inside && column >= 0 && column < view->dim[3] ? src + row * view->stride[2] + column * view->stride[3]
                                                          : zeros;
    }
  }
}

static void conv_item(void* argument, size_t item, unsigned thread) {
  const conv_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int has_residual = call->present >> 3 & 1;
  const size_t group = item / job->items, within = item % job->items;
  const size_t first = within / job->cut.chunks * job->cut.block;
  const size_t rows = job->cut.rows - first < job->cut.block ? job->cut.rows - first : job->cut.block;
  char* scratch = call->scratch + thread * call->scratch_bytes;
  const float** a = (const float**)scratch;
  float* zeros = (float*)(scratch + job->taps * MOST_ROWS * sizeof(float*));
  memset(zeros, 0, job->depth * sizeof(float));
  const size_t wide = (size_t)dst->dim[3], high = (size_t)dst->dim[2];
  float* out[MOST_ROWS];
  const float* residual[MOST_ROWS];
  int64_t x = (int64_t)(first % wide), y = (int64_t)(first / wide % high), n = (int64_t)(first / wide / high);
  for (size_t i = 0; i < rows; ++i) {
    find_taps(call, (const float*)src->data + n * src->stride[0] + (int64_t)(group * job->depth), zeros, y, x, a + i,
              rows);
    const int64_t channel = (int64_t)(group * job->columns);
    out[i] = (float*)dst->data + n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3] + channel;
    if (has_residual) {
      residual[i] = (const float*)res->data + n * res->stride[0] + y * res->stride[2] + x * res->stride[3] + channel;
    }
    if (++x < dst->dim[3]) continue;
    x = 0;
    if (++y < dst->dim[2]) continue;
    y = 0;
    ++n;
  }
  const product p = {
      .a = a,
      .pitch = rows,
      .taps = job->taps,
      .depth = job->depth,
      .weight = (const float*)call->src[1].data + group * job->cut.panels * AT_PANEL * job->taps * job->depth,
      .bias = call->present >> 2 & 1 ? (const float*)call->src[2].data + group * job->columns : NULL,
      .out = out,
      .residual = has_residual ? residual : NULL,
      .columns = job->columns,
      .act = read_activation(call->words + AT_CONV2D_ACT),
  };
  run_item(&p, &job->cut, within % job->cut.chunks, rows);
}

static int conv(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  if (suits_stem(call)) return stem(call);
  const int64_t* words = call->words;
  conv_job job = {.call = call, .groups = (size_t)words[AT_CONV2D_GROUPS]};
  job.taps = (size_t)(words[AT_CONV2D_KERNEL_H] * words[AT_CONV2D_KERNEL_W]);
  job.depth = (size_t)call->src[0].dim[1] / job.groups;
  job.columns = (size_t)dst->dim[1] / job.groups;
  const size_t rows = (size_t)(dst->dim[0] * dst->dim[2] * dst->dim[3]);
  job.cut = cut_product(rows, job.columns, at_pool_threads(call->pool));
  job.items = job.cut.blocks * job.cut.chunks;
  at_pool_run(call->pool, job.items * job.groups, conv_item, &job);
  return 0;
}
