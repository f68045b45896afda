// DWCONV2D and QDWCONV2D: one filter a channel; channels are innermost, so a vector holds neighbours of one pixel.
//
//   out[y][x][c] = act(Σ_i Σ_j in[y·s + i][x·s + j][c] · w[i·KW + j][c] + bias[c] (+ residual))
//
// Of int8, too, sums are float32: they are whole numbers below 2^24, so nothing is lost; see AT_MOST_TAPS.
//
// A column of the input is found through a pointer, for each row of the filter; beyond the image it points to zeros.
// PIXELS neighbours at once share what they read of a row.
#pragma once

#include "depthwise_tile.h"

typedef struct {
  const at_call* call;
  size_t channels, reach;  // columns of the input that a row of the output reads
  activation act;          // of int8 the bounds
  int64_t zero;
  int is_int8;
  int64_t ring, origin;  // lines of the source that are there, which go round, and the first ever; 0: all
} dw_job;

static size_t dw_pointers(const at_call* call) {
  const int64_t* words = call->words;
  const int64_t reach = (call->dst.dim[3] - 1) * words[AT_DWCONV2D_STRIDE_W] +
                        (words[AT_DWCONV2D_KERNEL_W] - 1) * words[AT_DWCONV2D_DILATION_W] + 1;
  return reach > 0 ? (size_t)reach : 0;
}

static size_t dw_need(const at_call* call) {
  const unsigned __int128 pointers = (unsigned __int128)call->words[AT_DWCONV2D_KERNEL_H] * dw_pointers(call);
  return at_bytes(pointers * sizeof(float*) + (size_t)call->dst.dim[1] * sizeof(float) + AT_LINE);
}

static void dw_item(void* argument, size_t item, unsigned thread) {
  const dw_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int64_t *words = call->words, size = job->is_int8 ? 1 : sizeof(float);
  const int64_t high = dst->dim[2], wide = dst->dim[3], n = (int64_t)item / high, y = (int64_t)item % high;
  const int has_residual = !job->is_int8 && call->present >> 3 & 1, kernel_h = (int)words[AT_DWCONV2D_KERNEL_H];
  const int64_t out_size = dst->dtype == AT_I8 ? 1 : sizeof(float);
  const char* image = src->data + n * src->stride[0] * size;
  const char** columns = (const char**)(void*)(call->scratch + thread * call->scratch_bytes);
  char* zeros = (char*)(columns + (size_t)kernel_h * job->reach);
  memset(zeros, (int)job->zero, job->channels * (size_t)size);
  int from = kernel_h, to = 0;
  for (int i = 0; i < kernel_h; ++i) {
    const int64_t row = y * words[AT_DWCONV2D_STRIDE_H] - words[AT_DWCONV2D_TOP] + i * words[AT_DWCONV2D_DILATION_H];
    const int is_row = row >= 0 && row < src->dim[2];
    if (!is_row && !job->is_int8) continue;  // of int8, sums begin with what all taps of the zero point add
    if (i < from) from = i;
    to = i + 1;
    const char** found = columns + (size_t)i * job->reach;
    const int64_t reach = (int64_t)job->reach, left = words[AT_DWCONV2D_LEFT], step = src->stride[3] * size;
    const span in = is_row ? span_inside(-left, 1, src->dim[3], reach) : (span){reach, reach};
    const int64_t at_line = job->ring ? (row - job->origin) % job->ring : row;
    const char* line = is_row ? image + at_line * src->stride[2] * size : NULL;
    for (int64_t at = 0; at < in.from; ++at) found[at] = zeros;
    for (int64_t at = in.from; at < in.to; ++at) found[at] = line + (at - left) * step;
    for (int64_t at = in.to; at < reach; ++at) found[at] = zeros;
  }
  dw_tile t = {.from = from < to ? from : to,
               .to = to,
               .reach = job->reach,
               .weight = call->src[1].data,
               .bias = !job->is_int8 && call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL,
               .residual_pixel = has_residual ? res->stride[3] : 0,
               .out_pixel = dst->stride[3],
               .channels = job->channels,
               .kernel_h = kernel_h,
               .kernel_w = (int)words[AT_DWCONV2D_KERNEL_W],
               .stride = (int)words[AT_DWCONV2D_STRIDE_W],
               .dilation = (int)words[AT_DWCONV2D_DILATION_W],
               .act = job->act};
  if (job->is_int8) {
    t.sums = (const int32_t*)(const void*)call->src[2].data;
    t.scale = (const float*)(const void*)call->src[3].data;
    t.offset = (const float*)(const void*)call->src[4].data;
    t.zero = (float)job->zero;
    t.out_int8 = dst->dtype == AT_I8;
  }
  const int plain = is_bounds(job->act.act) || job->act.act == AT_ACT_HARDSWISH;
  const int fills = !job->is_int8 || job->channels >= VL,
            is_known = t.kernel_w <= MOST_WIDTH && t.stride <= MOST_STRIDE;
  void (*const tile)(const dw_tile*) =
      fills && is_known && t.dilation == 1 ? DW_TILES[t.kernel_w][t.stride][dw_kind_of(&t)] : NULL;
  for (int64_t left = 0; left < wide; left += PIXELS) {
    // The last tile begins earlier, so that it is whole: what it makes again is the same.
    const int64_t x = left + PIXELS <= wide || wide < PIXELS || !plain ? left : wide - PIXELS;
    t.columns = columns + x * t.stride;
    t.out = dst->data + (n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3]) * out_size;
    t.residual =
        has_residual ? (float*)(void*)res->data + n * res->stride[0] + y * res->stride[2] + x * res->stride[3] : NULL;
    const int64_t pixels = wide - x < PIXELS ? wide - x : PIXELS;
    if (tile && pixels == PIXELS) {
      tile(&t);
    } else {
      for (int64_t p = 0; p < pixels; ++p) dw_one(&t, (size_t)p);
    }
    if (plain) continue;
    float* out = (float*)(void*)t.out;
    for (int64_t p = 0; p < pixels; ++p) activate(job->act.act, out + p * t.out_pixel, job->channels);
  }
}

INLINE dw_job dw_job_of(const at_call* call) {
  dw_job job = {.call = call, .channels = (size_t)call->dst.dim[1], .reach = dw_pointers(call)};
  job.is_int8 = call->src[0].dtype == AT_I8;
  if (job.is_int8) {
    const int64_t* made = call->words + AT_QDWCONV2D_ZERO;
    job.zero = made[0];
    job.act = (activation){.act = AT_ACT_CLAMP, .low = (float)at_number(made[1]), .high = (float)at_number(made[2])};
  } else {
    job.act = read_activation(call->words + AT_DWCONV2D_ACT);
  }
  return job;
}

static int dwconv(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  dw_job job = dw_job_of(call);
  at_pool_run(call->pool, (size_t)(dst->dim[0] * dst->dim[2]), dw_item, &job);
  return 0;
}
