// CONV2D: a product whose rows are pixels; each tap of the filter finds its row of channels through a pointer.
#pragma once

#include "grouped.h"
#include "picture.h"
#include "stem.h"

typedef struct {
  const at_call* call;
  cut cut;
  size_t taps, depth, columns, groups;
  size_t together;  // groups of an item, which share the pixels' pointers
  size_t items;     // of these
  int is_plain;     // a filter of one tap that stays inside of the image
} conv_job;

static size_t conv_need(const at_call* call) {
  if (suits_picture(call)) return 0;
  if (suits_stem(call)) return stem_need(call);
  if (grouped_of(call)) return grouped_need(call);
  const size_t taps = (size_t)(call->words[AT_CONV2D_KERNEL_H] * call->words[AT_CONV2D_KERNEL_W]);
  return taps * MOST_ROWS * sizeof(float*) + (size_t)call->src[0].dim[1] * sizeof(float) + AT_LINE;
}

INLINE int is_plain(const at_call* call) {
  const int64_t* words = call->words;
  const at_view *dst = &call->dst, *src = &call->src[0];
  return words[AT_CONV2D_KERNEL_H] == 1 && words[AT_CONV2D_KERNEL_W] == 1 && words[AT_CONV2D_TOP] == 0 &&
         words[AT_CONV2D_LEFT] == 0 && (dst->dim[2] - 1) * words[AT_CONV2D_STRIDE_H] < src->dim[2] &&
         (dst->dim[3] - 1) * words[AT_CONV2D_STRIDE_W] < src->dim[3];
}

// One tap's pointers of a run of pixels in a line of the output, from column `x` on: to zeros outside of the image.
INLINE void find_run(const at_call* call, float* line, float* zeros, int64_t left, int64_t x, int64_t count,
                     float** a) {
  const at_view* view = &call->src[0];
  const int64_t stride = call->words[AT_CONV2D_STRIDE_W], start = x * stride + left, pixel = view->stride[3];
  const span in = line ? span_inside(start, stride, view->dim[3], count) : (span){count, count};
  for (int64_t i = 0; i < in.from; ++i) a[i] = zeros;
  for (int64_t i = in.from; i < in.to; ++i) a[i] = line + (start + i * stride) * pixel;
  for (int64_t i = in.to; i < count; ++i) a[i] = zeros;
}

// The pointers of a block of pixels for all taps.
static void find_taps(const at_call* call, float* zeros, size_t first, size_t rows, float** a) {
  const at_view *view = &call->src[0], *dst = &call->dst;
  const int64_t* words = call->words;
  const size_t wide = (size_t)dst->dim[3], high = (size_t)dst->dim[2];
  for (size_t done = 0; done < rows;) {
    const size_t pixel = first + done, x = pixel % wide, y = pixel / wide % high, n = pixel / wide / high;
    const size_t count = wide - x < rows - done ? wide - x : rows - done;
    float* image = (float*)view->data + (int64_t)n * view->stride[0];
    float** at = a + done;
    for (int64_t i = 0; i < words[AT_CONV2D_KERNEL_H]; ++i) {
      const int64_t row =
          (int64_t)y * words[AT_CONV2D_STRIDE_H] - words[AT_CONV2D_TOP] + i * words[AT_CONV2D_DILATION_H];
      float* line = row >= 0 && row < view->dim[2] && view->dim[3] > 0 ? image + row * view->stride[2] : NULL;
      for (int64_t j = 0; j < words[AT_CONV2D_KERNEL_W]; ++j, at += rows) {
        find_run(call, line, zeros, j * words[AT_CONV2D_DILATION_W] - words[AT_CONV2D_LEFT], (int64_t)x, (int64_t)count,
                 at);
      }
    }
    done += count;
  }
}

static void conv_item(void* argument, size_t item, unsigned thread) {
  const conv_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const size_t begin = item / job->items * job->together, within = item % job->items;
  const size_t end = begin + job->together < job->groups ? begin + job->together : job->groups;
  const size_t first = within / job->cut.chunks * job->cut.block;
  const size_t rows = job->cut.rows - first < job->cut.block ? job->cut.rows - first : job->cut.block;
  char* scratch = call->scratch + thread * call->scratch_bytes;
  float** a = (float**)scratch;
  float *out[MOST_ROWS], *residual[MOST_ROWS];
  const way to = pixels_of(dst, dst, 1, 1), of = pixels_of(res, dst, 1, 1);
  product p = {
      .pitch = rows,
      .taps = job->taps,
      .depth = job->depth,
      .columns = job->columns,
      .act = read_activation(call->words + AT_CONV2D_ACT),
  };
  if (job->is_plain) {
    const way from = pixels_of(src, dst, call->words[AT_CONV2D_STRIDE_H], call->words[AT_CONV2D_STRIDE_W]);
    p.a = rows_from(&from, (float*)src->data, first, rows, a);
  } else {
    float* zeros = (float*)(scratch + job->taps * MOST_ROWS * sizeof(float*));
    memset(zeros, 0, (size_t)src->dim[1] * sizeof(float));
    find_taps(call, zeros, first, rows, a);
    p.a.at = a;
  }
  for (size_t group = begin; group < end; ++group) {
    const size_t column = group * job->columns;
    p.ahead = group * job->depth;
    p.weight = (const float*)call->src[1].data + group * job->cut.panels * AT_PANEL * job->taps * job->depth;
    p.bias = call->present >> 2 & 1 ? (const float*)call->src[2].data + column : NULL;
    p.out = rows_from(&to, (float*)dst->data + column, first, rows, out);
    if (call->present >> 3 & 1) p.residual = rows_from(&of, (float*)res->data + column, first, rows, residual);
    run_item(&p, &job->cut, within % job->cut.chunks, rows);
  }
}

static int conv(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  if (suits_picture(call)) return picture(call);
  if (suits_stem(call)) return stem(call);
  if (grouped_of(call)) return grouped(call);
  const int64_t* words = call->words;
  conv_job job = {.call = call, .groups = (size_t)words[AT_CONV2D_GROUPS], .is_plain = is_plain(call)};
  job.taps = (size_t)(words[AT_CONV2D_KERNEL_H] * words[AT_CONV2D_KERNEL_W]);
  job.depth = (size_t)call->src[0].dim[1] / job.groups;
  job.columns = (size_t)dst->dim[1] / job.groups;
  const size_t rows = (size_t)(dst->dim[0] * dst->dim[2] * dst->dim[3]);
  job.cut = cut_rows(call, rows, job.columns, job.taps, job.depth);
  job.items = job.cut.blocks * job.cut.chunks;
  const size_t wanted = at_pool_threads(call->pool) > 1 ? 4 * at_pool_threads(call->pool) : 1;
  const size_t parts = (wanted + job.items - 1) / job.items;
  job.together = (job.groups + parts - 1) / parts;
  at_pool_run(call->pool, (job.groups + job.together - 1) / job.together * job.items, conv_item, &job);
  return 0;
}
