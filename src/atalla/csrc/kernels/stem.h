// CONV2D of few channels, however the image lies in memory: rows of pixels are laid out again, one for each channel and
// row of the filter, padded, and split by the columns' stride, so that neighbours of the output are neighbours there.
// Rows of the image that the next row of the output reads, too, stay as they are.
#pragma once

#include "product.h"

typedef struct {
  const at_call* call;
  size_t channels, kernel_h, kernel_w, stride, dilation, wide, high;
  size_t phase, line;    // floats of one phase of a row, and of all of them
  size_t lead;           // floats in front of a line, so that most of its vectors are aligned
  size_t block, blocks;  // rows of the output that one item makes, and items of an image
  span inside[2];        // of the first phases: which columns are inside of the image
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
  job.phase = (job.wide + (job.kernel_w - 1) * job.dilation / job.stride + VL) / VL * VL;
  job.line = job.phase * job.stride;
  for (int64_t p = 0; p < 2; ++p) {
    const int64_t start = p - words[AT_CONV2D_LEFT];
    job.inside[p] = span_inside(start, (int64_t)job.stride, call->src[0].dim[3], (int64_t)job.phase);
  }
  const int64_t from = job.inside[0].from > job.inside[1].from ? job.inside[0].from : job.inside[1].from;
  job.lead = (size_t)(VL - from % VL);
  return job;
}

static size_t stem_need(const at_call* call) {
  const stem_job job = stem_of(call);
  const unsigned __int128 rows = job.kernel_h * job.channels;
  const unsigned __int128 bytes = rows * job.kernel_w * sizeof(float*) + rows * job.line * sizeof(float);
  return at_bytes(bytes + job.kernel_h * sizeof(int64_t) + job.lead * sizeof(float) + 2 * AT_LINE);
}

// Dense numbers, every second to one line and those between them to the other; returns how many went to each: none if
// they do not fill a vector.
INLINE int64_t stem_halves(const float* from, int64_t count, float* even, float* odd) {
  if (count < VL) return 0;
  for (int64_t i = 0; i < count; i += VL) {
    const int64_t at = i + VL <= count ? i : count - VL;  // some of the last ones again
    const vf a = vload(from + 2 * at), b = vload(from + 2 * at + VL);
    vstore(even + at, veven(a, b));
    vstore(odd + at, vodd(a, b));
  }
  return count;
}

// Column x of the padded row becomes [x % stride][x / stride]; what is outside of the image stays as it is.
static void stem_line(const stem_job* job, const float* row, int64_t step, float* line) {
  const int64_t stride = (int64_t)job->stride, phase = (int64_t)job->phase, columns = job->call->src[0].dim[3];
  const int64_t left = job->call->words[AT_CONV2D_LEFT];
  const span *even = &job->inside[0], *odd = &job->inside[1];
  span done = {0, 0};  // of both
  if (step == 1 && stride == 2) {
    const int64_t last = even->to < odd->to ? even->to : odd->to;
    done.from = done.to = even->from > odd->from ? even->from : odd->from;
    if (done.from < last) {
      const float* from = row + (2 * done.from - left);
      done.to += stem_halves(from, last - done.from, line + done.from, line + phase + done.from);
    }
  }
  for (int64_t p = 0; p < stride; ++p, line += phase) {
    const int64_t start = p - left;  // of the image, at line[0]
    const span in = p < 2 ? job->inside[p] : span_inside(start, stride, columns, phase);
    if (step == 1 && stride == 1) {
      memcpy(line + in.from, row + start + in.from, (size_t)(in.to - in.from) * sizeof(float));
      continue;
    }
    const int64_t apart = stride * step;
    const float* at = row + (start + in.from * stride) * step;
    for (int64_t i = in.from; i < done.from; ++i, at += apart) line[i] = *at;
    const int64_t rest = done.to > in.from ? done.to : in.from;
    at = row + (start + rest * stride) * step;
    for (int64_t i = rest; i < in.to; ++i, at += apart) line[i] = *at;
  }
}

// What a thread keeps: where the taps are, the rows of the image that were laid out again, and their numbers.
typedef struct {
  float** taps;
  int64_t* held;
  float* lines;
} stem_room;

// Lays out what a row of the output reads and is not there yet.
static void stem_row(const stem_job* job, const stem_room* room, int64_t n, int64_t y) {
  const at_call* call = job->call;
  const at_view* src = &call->src[0];
  const int64_t *words = call->words, high = (int64_t)job->kernel_h;
  const float* image = (const float*)(const void*)src->data + n * src->stride[0];
  for (int64_t i = 0; i < high; ++i) {
    const int64_t dilation = words[AT_CONV2D_DILATION_H];
    const int64_t row = y * words[AT_CONV2D_STRIDE_H] - words[AT_CONV2D_TOP] + i * dilation;
    const int64_t place = dilation == 1 ? (row % high + high) % high : i;
    const int is_there = room->held[place] == row;
    room->held[place] = row;
    float* lines = room->lines + (size_t)place * job->channels * job->line;
    for (size_t c = 0; c < job->channels && !is_there; ++c) {
      float* line = lines + c * job->line;
      if (row >= 0 && row < src->dim[2] && src->dim[3] > 0) {
        stem_line(job, image + row * src->stride[2] + (int64_t)c * src->stride[1], src->stride[3], line);
      } else {
        memset(line, 0, job->line * sizeof(float));
      }
    }
    float** taps = room->taps + (size_t)i * job->kernel_w * job->channels;
    for (size_t j = 0, p = 0, at = 0; j < job->kernel_w; ++j, taps += job->channels) {
      for (size_t c = 0; c < job->channels; ++c) taps[c] = lines + c * job->line + p * job->phase + at;
      for (p += job->dilation; p >= job->stride; p -= job->stride) ++at;
    }
  }
}

static void stem_item(void* argument, size_t item, unsigned thread) {
  const stem_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *res = &call->src[3];
  const int has_residual = call->present >> 3 & 1;
  const int64_t n = (int64_t)(item / job->blocks), first = (int64_t)(item % job->blocks * job->block);
  const int64_t end = first + (int64_t)job->block < dst->dim[2] ? first + (int64_t)job->block : dst->dim[2];
  const size_t depth = job->kernel_h * job->kernel_w * job->channels;
  char* scratch = call->scratch + thread * call->scratch_bytes;
  const size_t pointers = depth * sizeof(float*), numbers = job->kernel_h * sizeof(int64_t);
  const stem_room room = {
      .taps = (float**)(void*)scratch,
      .held = (int64_t*)(void*)(scratch + pointers),
      .lines = (float*)(void*)(scratch + (pointers + numbers + AT_LINE - 1) / AT_LINE * AT_LINE) + job->lead,
  };
  for (size_t i = 0; i < job->kernel_h; ++i) room.held[i] = INT64_MIN;
  memset(room.lines, 0, job->kernel_h * job->channels * job->line * sizeof(float));
  product p = {
      .lines = room.taps,
      .taps = 1,
      .depth = depth,
      .weight = (const float*)(const void*)call->src[1].data,
      .bias = call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL,
      .columns = (size_t)dst->dim[1],
      .act = read_activation(call->words + AT_CONV2D_ACT),
  };
  const size_t panels = (p.columns + AT_PANEL - 1) / AT_PANEL;
  for (int64_t y = first; y < end; ++y) {
    stem_row(job, &room, n, y);
    for (size_t at = 0; at < job->wide; at += MOST_ROWS) {
      const size_t count = job->wide - at < MOST_ROWS ? job->wide - at : MOST_ROWS;
      const int64_t x = (int64_t)at;
      float* out = (float*)(void*)dst->data + n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3];
      p.out = (rows){.first = out, .step = dst->stride[3]};
      if (has_residual) {
        float* of = (float*)(void*)res->data + n * res->stride[0] + y * res->stride[2] + x * res->stride[3];
        p.residual = (rows){.first = of, .step = res->stride[3]};
      }
      p.ahead = at;
      multiply_block(&p, count, 0, panels);
    }
  }
}

static int stem(const at_call* call) {
  stem_job job = stem_of(call);
  const size_t threads = at_pool_threads(call->pool);
  job.block = threads > 1 ? (job.high + 4 * threads - 1) / (4 * threads) : job.high;
  job.blocks = (job.high + job.block - 1) / job.block;
  at_pool_run(call->pool, (size_t)call->dst.dim[0] * job.blocks, stem_item, &job);
  return 0;
}
