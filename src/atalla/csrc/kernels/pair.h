// A 1 × 1 convolution and the depthwise one behind it in one pass: lines of what is between them go round in a ring
// that stays in the caches, as many as the depthwise filter is high. "pairs.c" says which two run like this.
#pragma once

#include "conv.h"
#include "depthwise.h"

typedef struct {
  const at_call *conv, *dw;
  size_t bands, high;       // of these, each a thread's at a time; and what a band holds
  int64_t together, items;  // rows of the output that are made at once, and how often for an image
  int64_t reach, step;      // lines that these read, and that are multiplied together
  size_t ring, line;        // lines of the ring, some steps; floats of one
  size_t room;              // bytes of scratch in front of the ring
} pair_job;

INLINE pair_job pair_of(const at_call* call) {
  const at_call* dw = call->behind;
  const int64_t* words = dw->words;
  const dw_job filter = dw_job_of(dw);
  const size_t conv_room = conv_need(call), dw_room = dw_need(dw), rows = (size_t)filter.items;
  const size_t threads = at_pool_threads(call->pool), most = 2 * threads;
  pair_job job = {.conv = call, .dw = dw, .together = filter.together, .items = filter.items};
  job.bands = threads == 1 ? 1 : rows < most ? rows : most;
  job.high = (rows + job.bands - 1) / job.bands;
  job.reach = (words[AT_DWCONV2D_KERNEL_H] - 1) * words[AT_DWCONV2D_DILATION_H] + 1 +
              (filter.together - 1) * words[AT_DWCONV2D_STRIDE_H];
  job.step = MOST_ROWS / call->dst.dim[3];
  if (job.step < 1) job.step = 1;
  job.ring = (size_t)((job.reach + 2 * job.step - 2) / job.step * job.step);
  job.line = (size_t)(call->dst.dim[1] * call->dst.dim[3]);
  job.room = ((conv_room > dw_room ? conv_room : dw_room) + AT_LINE - 1) / AT_LINE * AT_LINE;
  return job;
}

static size_t pair_need(const at_call* call) {
  const pair_job job = pair_of(call);
  return at_bytes((unsigned __int128)job.ring * job.line * sizeof(float) + job.room);
}

// Some lines of what is between, from line `at` of the ring on, where they are neighbours; `conv` is the job's own copy
// of the call.
static void pair_lines(const pair_job* job, at_call* conv, float* ring, int64_t n, int64_t row, int64_t lines,
                       size_t at, unsigned thread) {
  const at_view* src = &job->conv->src[0];
  conv->src[0].data = src->data + (n * src->stride[0] + row * src->stride[2]) * (int64_t)sizeof(float);
  conv->dst.data = (char*)(ring + at % job->ring * job->line);
  conv->src[0].dim[2] = conv->dst.dim[2] = lines;
  conv_job product = {.call = conv, .taps = 1, .groups = 1, .together = 1, .is_plain = 1};
  product.depth = (size_t)conv->src[0].dim[1];
  product.columns = (size_t)conv->dst.dim[1];
  const size_t rows = (size_t)(lines * conv->dst.dim[3]);
  product.cut = cut_product(rows, product.columns, product.depth, 1, MOST_ROWS, MOST_2, WHOLE);
  product.items = product.cut.blocks * product.cut.chunks;
  for (size_t item = 0; item < product.items; ++item) conv_item(&product, item, thread);
}

static void pair_item(void* argument, size_t item, unsigned thread) {
  const pair_job* job = argument;
  at_call conv = *job->conv, dw = *job->dw;
  const at_view* between = &job->conv->dst;
  const int64_t* words = dw.words;
  const int64_t n = (int64_t)(item / job->bands), first = (int64_t)(item % job->bands * job->high);
  const int64_t last = first + (int64_t)job->high < job->items ? first + (int64_t)job->high : job->items;
  const int64_t channels = between->dim[1], high = between->dim[2];
  float* ring = (float*)(void*)(conv.scratch + thread * conv.scratch_bytes + job->room);
  conv.src[0].dim[0] = conv.dst.dim[0] = 1;
  dw.src[0].data = (char*)ring;
  dw.src[0].stride[0] = 0;
  conv.dst.stride[3] = dw.src[0].stride[3] = channels;
  dw.src[0].stride[2] = (int64_t)job->line;
  dw_job filter = dw_job_of(&dw);
  filter.ring = (int64_t)job->ring;
  const int64_t step = job->together * words[AT_DWCONV2D_STRIDE_H];
  const int64_t above = first * step - words[AT_DWCONV2D_TOP];
  filter.origin = above > 0 ? above : 0;
  for (int64_t y = first, next = filter.origin; y < last; ++y) {
    const int64_t end = y * step - words[AT_DWCONV2D_TOP] + job->reach;
    for (; next < end && next < high; next += job->step) {
      const int64_t lines = high - next < job->step ? high - next : job->step;
      pair_lines(job, &conv, ring, n, next, lines, (size_t)(next - filter.origin), thread);
    }
    dw_item(&filter, (size_t)(n * job->items + y), thread);
  }
}

static int pair(const at_call* call) {
  pair_job job = pair_of(call);
  at_pool_run(call->pool, (size_t)call->dst.dim[0] * job.bands, pair_item, &job);
  return 0;
}
