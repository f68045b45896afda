// CONV2D of few channels, however the image lies in memory: rows of pixels are laid out anew, one for each channel and
// row of the filter, padded, and split by the columns' stride, so that neighbours of the output are neighbours there.
#pragma once

#include "product.h"

typedef struct {
  const at_call* call;
  size_t channels, kernel_h, kernel_w, stride, dilation, wide, high;
  size_t phase, line;  // floats of one phase of a row, and of all of them
} stem_job;

INLINE int suits_stem(const at_call* call) {
  return call->words[AT_CONV2D_GROUPS] == 1 && call->src[0].dim[1] <= AT_FEW_CHANNELS;
}

INLINE stem_job stem_of(const at_call* call) {
  const int64_t* words = call->words;
  stem_job job = {.call = call,
                  .channels = (size_t)call->src[0].dim[1],
                  .kernel_h = (size_t)words[AT_CONV2D_KERNEL_H],
                  .kernel_w = (size_t)words[AT_CONV2D_KERNEL_W],
                  .stride = (size_t)words[AT_CONV2D_STRIDE_W],
                  .dilation = (size_t)words[AT_CONV2D_DILATION_W],
                  .wide = (size_t)call->dst.dim[3],
                  .high = (size_t)call->dst.dim[2]};
  job.phase = job.wide + (job.kernel_w - 1) * job.dilation / job.stride + 1;
  job.line = job.phase * job.stride;
  return job;
}

static size_t stem_need(const at_call* call) {
  const stem_job job = stem_of(call);
  const unsigned __int128 rows = job.kernel_h * job.channels;
  return at_bytes(rows * job.kernel_w * sizeof(float*) + rows * job.line * sizeof(float) + 2 * AT_LINE);
}

// Column x of the padded row becomes [x % stride][x / stride].
static void stem_line(const stem_job* job, const float* row, int64_t step, int64_t left, int64_t columns, float* line) {
  const int64_t stride = (int64_t)job->stride;
  for (int64_t p = 0; p < stride; ++p, line += job->phase) {
    const int64_t phase = (int64_t)job->phase, start = p - left;  // of the image, at line[0]
    int64_t from = start >= 0 ? 0 : (-start + stride - 1) / stride;
    int64_t to = start >= columns ? 0 : (columns - start + stride - 1) / stride;
    if (from > phase) from = phase;
    if (to > phase) to = phase;
    if (to < from) to = from;
    memset(line, 0, (size_t)from * sizeof(float));
    memset(line + to, 0, (size_t)(phase - to) * sizeof(float));
    const float* at = row + (start + from * stride) * step;
    if (step == 1 && stride == 2) {
      for (int64_t i = 0; i < to - from; ++i) line[from + i] = at[2 * i];
    } else {
      for (int64_t i = 0; i < to - from; ++i) line[from + i] = at[i * stride * step];
    }
  }
}

static void stem_item(void* argument, size_t item, unsigned thread) {
  const stem_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int64_t* words = call->words;
  const int has_residual = call->present >> 3 & 1;
  const int64_t n = (int64_t)(item / job->high), y = (int64_t)(item % job->high);
  char* scratch = call->scratch + thread * call->scratch_bytes;
  float** taps = (float**)(void*)scratch;
  const size_t depth = job->kernel_h * job->kernel_w * job->channels;
  float* lines = (float*)(void*)(scratch + (depth * sizeof(float*) + AT_LINE - 1) / AT_LINE * AT_LINE);
  const float* image = (const float*)(const void*)src->data + n * src->stride[0];
  for (size_t i = 0; i < job->kernel_h; ++i) {
    const int64_t row = y * words[AT_CONV2D_STRIDE_H] - words[AT_CONV2D_TOP] + (int64_t)i * words[AT_CONV2D_DILATION_H];
    const int inside = row >= 0 && row < src->dim[2];
    for (size_t c = 0; c < job->channels; ++c) {
      float* line = lines + (i * job->channels + c) * job->line;
      if (inside) {
        stem_line(job, image + row * src->stride[2] + (int64_t)c * src->stride[1], src->stride[3],
                  words[AT_CONV2D_LEFT], src->dim[3], line);
      } else {
        memset(line, 0, job->line * sizeof(float));
      }
      for (size_t j = 0; j < job->kernel_w; ++j) {
        const size_t column = j * job->dilation;
        taps[(i * job->kernel_w + j) * job->channels + c] =
            line + column % job->stride * job->phase + column / job->stride;
      }
    }
  }
  product p = {
      .lines = taps,
      .taps = 1,
      .depth = depth,
      .weight = (const float*)(const void*)call->src[1].data,
      .bias = call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL,
      .columns = (size_t)dst->dim[1],
      .act = read_activation(call->words + AT_CONV2D_ACT),
  };
  const size_t panels = (p.columns + AT_PANEL - 1) / AT_PANEL;
  for (size_t first = 0; first < job->wide; first += MOST_ROWS) {
    const size_t count = job->wide - first < MOST_ROWS ? job->wide - first : MOST_ROWS;
    const int64_t x = (int64_t)first;
    float* out = (float*)(void*)dst->data + n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3];
    p.out = (rows){.first = out, .step = dst->stride[3]};
    if (has_residual) {
      float* of = (float*)(void*)res->data + n * res->stride[0] + y * res->stride[2] + x * res->stride[3];
      p.residual = (rows){.first = of, .step = res->stride[3]};
    }
    p.ahead = first;
    multiply_block(&p, count, 0, panels);
  }
}

static int stem(const at_call* call) {
  const stem_job job = stem_of(call);
  at_pool_run(call->pool, (size_t)call->dst.dim[0] * job.high, stem_item, (void*)&job);
  return 0;
}
