// DWCONV2D and QDWCONV2D: one filter a channel; channels are innermost, so a vector holds neighbours of one pixel.
//
//   out[y][x][c] = act(Σ_i Σ_j in[y·s + i][x·s + j][c] · w[i·KW + j][c] + bias[c] (+ residual))
//
// Of int8, too, sums are float32: they are whole numbers below 2^24, so nothing is lost; see AT_MOST_TAPS.
//
// A column of the input is found through a pointer, for each row of the filter; beyond the image it points to zeros.
// PIXELS neighbours at once share what they read of a row.
#pragma once

#include "narrow.h"
#include "product.h"
#include "rounded.h"

enum { PIXELS = 7 };  // images are 7, 14, 28, 56 or 112 pixels wide

typedef struct {
  const at_call* call;
  size_t channels, reach;  // columns of the input that a row of the output reads
  activation act;          // of int8 the bounds
  int64_t zero;
  int is_int8;
  int64_t ring, origin;  // lines of the source that are there, which go round, and the first ever; 0: all
} dw_job;

typedef struct {
  const char* const* columns;  // [kernel_h][reach], at the tile's left edge
  const uint8_t* inside;       // which rows of the filter are inside of the image
  size_t reach;
  const char* weight;  // [taps][channels]
  const float* bias;
  const float* residual;
  char* out;
  int64_t residual_pixel, out_pixel;  // elements between pixels
  const int32_t* sums;                // of int8, and what is made of it
  const float *scale, *offset;
  float zero;
  int out_int8;
  size_t channels;
  int kernel_h, kernel_w, stride, dilation;
  activation act;
} dw_tile;

INLINE vf dw_load(const float* at, size_t count, const int full) { return full ? vload(at) : vload_part(at, count); }

// Element `c` of int8 or of floats, and those behind it.
INLINE vf dw_number(const int is_int8, const char* at, size_t c, size_t count, const int full) {
  if (!is_int8) return dw_load((const float*)(const void*)at + c, count, full);
  return full ? vload_int8((const int8_t*)at + c) : vload_int8_part((const int8_t*)at + c, count);
}

// What sums begin with.
INLINE vf dw_start(const int is_int8, const dw_tile* t, size_t c, size_t count, const int full) {
  if (!is_int8) return t->bias ? dw_load(t->bias + c, count, full) : vset(0.0f);
  const vi sums = (vi)dw_load((const float*)(const void*)t->sums + c, count, full);
  return __builtin_convertvector(sums, vf) * vset(-t->zero);
}

INLINE void dw_store_int8(const dw_tile* t, int p, size_t c, size_t count, const int full, vf sum) {
  const vf made = vrounded(sum, dw_load(t->scale + c, count, full)) + dw_load(t->offset + c, count, full);
  const vf x = vceil_at(vfloor_at(made, vset(t->act.low)), vset(t->act.high));
  const int64_t place = p * t->out_pixel + (int64_t)c;
  int8_t* bytes = (int8_t*)t->out + place;
  float* floats = (float*)(void*)t->out + place;
  if (t->out_int8) {
    full ? vstore_int8(bytes, x) : vstore_int8_part(bytes, x, count);
  } else {
    full ? vstore(floats, x) : vstore_part(floats, x, count);
  }
}

INLINE void dw_store(const dw_tile* t, int p, size_t c, size_t count, const int full, const int64_t act, vf x) {
  if (t->residual) x += dw_load(t->residual + p * t->residual_pixel + c, count, full);
  if (act == AT_ACT_CLAMP) x = vceil_at(vfloor_at(x, vset(t->act.low)), vset(t->act.high));
  if (act == AT_ACT_HARDSWISH) x = vhardswish(x);
  float* out = (float*)(void*)t->out + p * t->out_pixel + c;
  if (full) {
    vstore(out, x);
  } else {
    vstore_part(out, x, count);
  }
}

// `pixels` neighbours, a vector of channels; what comes before the tile are constants.
INLINE void dw_vector(const int is_int8, const int pixels, const int kernel_w, const int stride, const int full,
                      const int64_t act, const dw_tile* t, size_t c, size_t count) {
  vf acc[PIXELS];
  const vf start = dw_start(is_int8, t, c, count, full);
  for (int p = 0; p < pixels; ++p) acc[p] = start;
  for (int i = 0; i < t->kernel_h; ++i) {
    if (!t->inside[i]) continue;
    const char* const* columns = t->columns + (size_t)i * t->reach;
    vf w[5];
    for (int j = 0; j < kernel_w; ++j) {
      w[j] = dw_number(is_int8, t->weight, (size_t)(i * kernel_w + j) * t->channels + c, count, full);
    }
#pragma GCC unroll 24
    for (int at = 0; at < (pixels - 1) * stride + kernel_w; ++at) {
      const vf x = dw_number(is_int8, columns[at], c, count, full);
#pragma GCC unroll 8
      for (int p = 0; p < pixels; ++p) {
        const int j = at - p * stride;
        if (j >= 0 && j < kernel_w) acc[p] += x * w[j];
      }
    }
  }
  for (int p = 0; p < pixels; ++p) {
    is_int8 ? dw_store_int8(t, p, c, count, full, acc[p]) : dw_store(t, p, c, count, full, act, acc[p]);
  }
}

INLINE void dw_channels(const int is_int8, const int pixels, const int kernel_w, const int stride, const int64_t act,
                        const dw_tile* t) {
  size_t c = 0;
  if (is_int8) {  // a part of a vector of bytes is slow: at the end some channels again, which gives the same
    for (; c < t->channels; c += VL) {
      const size_t most = t->channels - VL;
      dw_vector(is_int8, pixels, kernel_w, stride, 1, act, t, c < most ? c : most, VL);
    }
    return;
  }
  for (; c + VL <= t->channels; c += VL) dw_vector(is_int8, pixels, kernel_w, stride, 1, act, t, c, VL);
  if (c < t->channels) dw_vector(is_int8, pixels, kernel_w, stride, 0, act, t, c, t->channels - c);
}

INLINE void dw_pixels(const int kernel_w, const int stride, const dw_tile* t) {
  if (t->scale) {
    dw_channels(1, PIXELS, kernel_w, stride, AT_ACT_NONE, t);
    return;
  }
  switch (t->act.act) {
    case AT_ACT_HARDSWISH:
      dw_channels(0, PIXELS, kernel_w, stride, AT_ACT_HARDSWISH, t);
      break;
    case AT_ACT_RELU:
    case AT_ACT_CLAMP:
      dw_channels(0, PIXELS, kernel_w, stride, AT_ACT_CLAMP, t);
      break;
    default:
      dw_channels(0, PIXELS, kernel_w, stride, AT_ACT_NONE, t);
  }
}

// One pixel, whatever the filter is.
INLINE void dw_pixel(const int is_int8, const dw_tile* t, size_t p, size_t c, size_t count, const int full) {
  vf acc = dw_start(is_int8, t, c, count, full);
  for (int i = 0; i < t->kernel_h; ++i) {
    if (!t->inside[i]) continue;
    for (int j = 0; j < t->kernel_w; ++j) {
      const char* x = t->columns[(size_t)i * t->reach + p * (size_t)t->stride + (size_t)j * (size_t)t->dilation];
      const size_t w = (size_t)(i * t->kernel_w + j) * t->channels + c;
      acc += dw_number(is_int8, x, c, count, full) * dw_number(is_int8, t->weight, w, count, full);
    }
  }
  if (is_int8) {
    dw_store_int8(t, (int)p, c, count, full, acc);
  } else {
    dw_store(t, (int)p, c, count, full, is_bounds(t->act.act) ? AT_ACT_CLAMP : t->act.act, acc);
  }
}

INLINE void dw_all_channels(const int is_int8, const dw_tile* t, size_t p) {
  size_t c = 0;
  for (; c + VL <= t->channels; c += VL) dw_pixel(is_int8, t, p, c, VL, 1);
  if (c < t->channels) dw_pixel(is_int8, t, p, c, t->channels - c, 0);
}

static void dw_one(const dw_tile* t, size_t p) { t->scale ? dw_all_channels(1, t, p) : dw_all_channels(0, t, p); }

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
  const int64_t *words = call->words, size = job->is_int8 ? 1 : sizeof(float);
  const int64_t high = dst->dim[2], wide = dst->dim[3], n = (int64_t)item / high, y = (int64_t)item % high;
  const int has_residual = !job->is_int8 && call->present >> 3 & 1, kernel_h = (int)words[AT_DWCONV2D_KERNEL_H];
  const int64_t out_size = dst->dtype == AT_I8 ? 1 : sizeof(float);
  const char* image = src->data + n * src->stride[0] * size;
  const char** columns = (const char**)(void*)(call->scratch + thread * call->scratch_bytes);
  char* zeros = (char*)(columns + (size_t)kernel_h * job->reach);
  memset(zeros, (int)job->zero, job->channels * (size_t)size);
  uint8_t inside[MOST_KERNEL];
  for (int i = 0; i < kernel_h; ++i) {
    const int64_t row = y * words[AT_DWCONV2D_STRIDE_H] - words[AT_DWCONV2D_TOP] + i * words[AT_DWCONV2D_DILATION_H];
    const int is_row = row >= 0 && row < src->dim[2];
    inside[i] = is_row || job->is_int8;  // sums begin with what all taps of the zero point add
    if (!inside[i]) continue;
    const char** found = columns + (size_t)i * job->reach;
    const int64_t reach = (int64_t)job->reach, left = words[AT_DWCONV2D_LEFT], step = src->stride[3] * size;
    const span in = is_row ? span_inside(-left, 1, src->dim[3], reach) : (span){reach, reach};
    const int64_t at_line = job->ring ? (row - job->origin) % job->ring : row;
    const char* line = is_row ? image + at_line * src->stride[2] * size : NULL;
    for (int64_t at = 0; at < in.from; ++at) found[at] = zeros;
    for (int64_t at = in.from; at < in.to; ++at) found[at] = line + (at - left) * step;
    for (int64_t at = in.to; at < reach; ++at) found[at] = zeros;
  }
  dw_tile t = {.inside = inside,
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
  const int fills = !job->is_int8 || job->channels >= VL;
  const int fast = fills && t.dilation == 1 && (t.stride == 1 || t.stride == 2) && (t.kernel_w == 3 || t.kernel_w == 5);
  for (int64_t left = 0; left < wide; left += PIXELS) {
    // The last tile begins earlier, so that it is whole: what it makes again is the same.
    const int64_t x = left + PIXELS <= wide || wide < PIXELS || !plain ? left : wide - PIXELS;
    t.columns = columns + x * t.stride;
    t.out = dst->data + (n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3]) * out_size;
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
