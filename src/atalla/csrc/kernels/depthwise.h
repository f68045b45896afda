// DWCONV2D: one filter a channel; channels are innermost, so a vector holds neighbours of one pixel.
//
//   out[y][x][c] = act(Σ_i Σ_j in[y·s + i][x·s + j][c] · w[i·KW + j][c] + bias[c] (+ residual))
//
// A column of the input is found through a pointer, for each row of the filter; beyond the image it points to zeros.
// PIXELS neighbours at once share what they read of a row.
#pragma once

#include "product.h"

enum { PIXELS = 7 };  // images are 7, 14, 28, 56 or 112 pixels wide

typedef struct {
  const at_call* call;
  size_t channels, reach;  // columns of the input that a row of the output reads
  activation act;
} dw_job;

typedef struct {
  const float* const* columns;  // [kernel_h][reach], at the tile's left edge
  const uint8_t* inside;        // which rows of the filter are inside of the image
  size_t reach;
  const float* weight;  // [taps][channels]
  const float* bias;
  const float* residual;
  float* out;
  int64_t residual_pixel, out_pixel;  // floats between pixels
  size_t channels;
  int kernel_h, kernel_w, stride, dilation;
  activation act;
} dw_tile;

INLINE vf dw_load(const float* at, size_t count, const int full) { return full ? vload(at) : vload_part(at, count); }

INLINE void dw_store(const dw_tile* t, int p, size_t c, size_t count, const int full, const int64_t act, vf x) {
  if (t->residual) x += dw_load(t->residual + p * t->residual_pixel + c, count, full);
  if (act == AT_ACT_CLAMP) x = vceil_at(vfloor_at(x, vset(t->act.low)), vset(t->act.high));
  if (act == AT_ACT_HARDSWISH) x = vhardswish(x);
  float* out = t->out + p * t->out_pixel + c;
  if (full) {
    vstore(out, x);
  } else {
    vstore_part(out, x, count);
  }
}

// `pixels` neighbours, a vector of channels; the first three numbers are constants.
INLINE void dw_vector(const int pixels, const int kernel_w, const int stride, const int full, const int64_t act,
                      const dw_tile* t, size_t c, size_t count) {
  vf acc[PIXELS];
  const vf start = t->bias ? dw_load(t->bias + c, count, full) : vset(0.0f);
  for (int p = 0; p < pixels; ++p) acc[p] = start;
  for (int i = 0; i < t->kernel_h; ++i) {
    if (!t->inside[i]) continue;
    const float* const* columns = t->columns + (size_t)i * t->reach;
    const float* weight = t->weight + (size_t)(i * kernel_w) * t->channels + c;
    vf w[5];
    for (int j = 0; j < kernel_w; ++j) w[j] = dw_load(weight + (size_t)j * t->channels, count, full);
#pragma GCC unroll 24
    for (int at = 0; at < (pixels - 1) * stride + kernel_w; ++at) {
      const vf x = dw_load(columns[at] + c, count, full);
#pragma GCC unroll 8
      for (int p = 0; p < pixels; ++p) {
        const int j = at - p * stride;
        if (j >= 0 && j < kernel_w) acc[p] += x * w[j];
      }
    }
  }
  for (int p = 0; p < pixels; ++p) dw_store(t, p, c, count, full, act, acc[p]);
}

INLINE void dw_channels(const int pixels, const int kernel_w, const int stride, const int64_t act, const dw_tile* t) {
  size_t c = 0;
  for (; c + VL <= t->channels; c += VL) dw_vector(pixels, kernel_w, stride, 1, act, t, c, VL);
  if (c < t->channels) dw_vector(pixels, kernel_w, stride, 0, act, t, c, t->channels - c);
}

INLINE void dw_pixels(const int kernel_w, const int stride, const dw_tile* t) {
  switch (t->act.act) {
    case AT_ACT_HARDSWISH:
      dw_channels(PIXELS, kernel_w, stride, AT_ACT_HARDSWISH, t);
      break;
    case AT_ACT_RELU:
    case AT_ACT_CLAMP:
      dw_channels(PIXELS, kernel_w, stride, AT_ACT_CLAMP, t);
      break;
    default:
      dw_channels(PIXELS, kernel_w, stride, AT_ACT_NONE, t);
  }
}

// One pixel, whatever the filter is.
INLINE void dw_pixel(const dw_tile* t, size_t p, size_t c, size_t count, const int full) {
  vf acc = t->bias ? dw_load(t->bias + c, count, full) : vset(0.0f);
  for (int i = 0; i < t->kernel_h; ++i) {
    if (!t->inside[i]) continue;
    for (int j = 0; j < t->kernel_w; ++j) {
      const float* x = t->columns[(size_t)i * t->reach + p * (size_t)t->stride + (size_t)j * (size_t)t->dilation] + c;
      const float* w = t->weight + (size_t)(i * t->kernel_w + j) * t->channels + c;
      acc += dw_load(x, count, full) * dw_load(w, count, full);
    }
  }
  dw_store(t, (int)p, c, count, full, is_bounds(t->act.act) ? AT_ACT_CLAMP : t->act.act, acc);
}

static void dw_one(const dw_tile* t, size_t p) {
  size_t c = 0;
  for (; c + VL <= t->channels; c += VL) dw_pixel(t, p, c, VL, 1);
  if (c < t->channels) dw_pixel(t, p, c, t->channels - c, 0);
}

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
  enum { MOST_KERNEL = 64 };
  const dw_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int64_t* words = call->words;
  const int64_t high = dst->dim[2], wide = dst->dim[3], n = (int64_t)item / high, y = (int64_t)item % high;
  const int has_residual = call->present >> 3 & 1, kernel_h = (int)words[AT_DWCONV2D_KERNEL_H];
  const float* image = (const float*)(const void*)src->data + n * src->stride[0];
  const float** columns = (const float**)(void*)(call->scratch + thread * call->scratch_bytes);
  float* zeros = (float*)(void*)(columns + (size_t)kernel_h * job->reach);
  memset(zeros, 0, job->channels * sizeof(float));
  uint8_t inside[MOST_KERNEL];
  for (int i = 0; i < kernel_h; ++i) {
    const int64_t row = y * words[AT_DWCONV2D_STRIDE_H] - words[AT_DWCONV2D_TOP] + i * words[AT_DWCONV2D_DILATION_H];
    inside[i] = row >= 0 && row < src->dim[2];
    if (!inside[i]) continue;
    const float** found = columns + (size_t)i * job->reach;
    for (size_t at = 0; at < job->reach; ++at) {
      const int64_t x = (int64_t)at - words[AT_DWCONV2D_LEFT];
      found[at] = x >= 0 && x < src->dim[3] ? image + row * src->stride[2] + x * src->stride[3] : zeros;
    }
  }
  dw_tile t = {.inside = inside,
               .reach = job->reach,
               .weight = (const float*)(const void*)call->src[1].data,
               .bias = call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL,
               .residual_pixel = has_residual ? res->stride[3] : 0,
               .out_pixel = dst->stride[3],
               .channels = job->channels,
               .kernel_h = kernel_h,
               .kernel_w = (int)words[AT_DWCONV2D_KERNEL_W],
               .stride = (int)words[AT_DWCONV2D_STRIDE_W],
               .dilation = (int)words[AT_DWCONV2D_DILATION_W],
               .act = job->act};
  const int plain = is_bounds(job->act.act) || job->act.act == AT_ACT_HARDSWISH;
  const int fast = t.dilation == 1 && (t.stride == 1 || t.stride == 2) && (t.kernel_w == 3 || t.kernel_w == 5);
  for (int64_t left = 0; left < wide; left += PIXELS) {
    // The last tile begins earlier, so that it is whole: what it makes again is the same.
    const int64_t x = left + PIXELS <= wide || wide < PIXELS || !plain ? left : wide - PIXELS;
    t.columns = columns + x * t.stride;
    t.out = (float*)(void*)dst->data + n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3];
    t.residual = has_residual ? (const float*)(const void*)res->data + n * res->stride[0] + y * res->stride[2] +
                                    x * res->stride[3]
                              : NULL;
    const int64_t pixels = wide - x < PIXELS ? wide - x : PIXELS;
    if (!fast || pixels < PIXELS) {
      for (int64_t p = 0; p < pixels; ++p) dw_one(&t, (size_t)p);
    } else if (t.kernel_w == 3) {
      if (t.stride == 1) dw_pixels(3, 1, &t);
      if (t.stride == 2) dw_pixels(3, 2, &t);
    } else {
      if (t.stride == 1) dw_pixels(5, 1, &t);
      if (t.stride == 2) dw_pixels(5, 2, &t);
    }
    if (plain) continue;
    for (int64_t p = 0; p < pixels; ++p) activate(job->act.act, t.out + p * t.out_pixel, job->channels);
  }
}

static int dwconv(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  dw_job job = {call, (size_t)dst->dim[1], dw_pointers(call), read_activation(call->words + AT_DWCONV2D_ACT)};
  at_pool_run(call->pool, (size_t)(dst->dim[0] * dst->dim[2]), dw_item, &job);
  return 0;
}
