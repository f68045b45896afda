// DWCONV2D: one filter a channel; channels are innermost, so a vector holds neighbours of one pixel.
//
//   out[y][x][c] = act(Σ_i Σ_j in[y·s + i][x·s + j][c] · w[i·KW + j][c] + bias[c] (+ residual))
//
// Several neighbouring pixels at once share what they read of a row; at the edges pixels are taken one by one.
#pragma once

#include "product.h"

typedef struct {
  const at_call* call;
  size_t channels;
  activation act;
} dw_job;

typedef struct {
  const float* const* rows;  // of the input at the tile's left edge, one for each row of the filter; NULL outside
  const float* weight;       // [taps][channels]
  const float* bias;
  const float* residual;
  float* out;
  int64_t pixel, step, residual_pixel, out_pixel;  // floats between pixels of the input and, ·stride, of a tile; …
  size_t channels;
  int kernel_h, kernel_w, from, to;  // columns of the filter that are inside of the image
  vf low, high;
  int bounds;
} dw_tile;

INLINE void dw_store(const dw_tile* t, int p, size_t c, size_t count, vf x) {
  if (t->residual) {
    const float* residual = t->residual + p * t->residual_pixel + c;
    x += count == VL ? vload(residual) : vload_part(residual, count);
  }
  if (t->bounds) x = vceil_at(vfloor_at(x, t->low), t->high);
  float* out = t->out + p * t->out_pixel + c;
  if (count == VL) {
    vstore(out, x);
  } else {
    vstore_part(out, x, count);
  }
}

// `pixels` neighbours whose filters lie inside of the image; all three numbers are constants where it matters.
INLINE void dw_inside(const int pixels, const int kernel_w, const int stride, const dw_tile* t) {
  for (size_t c = 0; c < t->channels; c += VL) {
    const size_t count = t->channels - c < VL ? t->channels - c : VL;
    vf acc[4];
    const vf start = t->bias ? (count == VL ? vload(t->bias + c) : vload_part(t->bias + c, count)) : vset(0.0f);
    for (int p = 0; p < pixels; ++p) acc[p] = start;
    for (int i = 0; i < t->kernel_h; ++i) {
      const float* row = t->rows[i];
      if (!row) continue;
      vf x[4 + 2 * 4 + 1];
      const int reach = (pixels - 1) * stride + kernel_w;
      for (int j = 0; j < reach; ++j) {
        const float* at = row + j * t->pixel + c;
        x[j] = count == VL ? vload(at) : vload_part(at, count);
      }
      for (int j = 0; j < kernel_w; ++j) {
        const float* at = t->weight + (size_t)(i * kernel_w + j) * t->channels + c;
        const vf w = count == VL ? vload(at) : vload_part(at, count);
        for (int p = 0; p < pixels; ++p) acc[p] += x[p * stride + j] * w;
      }
    }
    for (int p = 0; p < pixels; ++p) dw_store(t, p, c, count, acc[p]);
  }
}

// One pixel, whatever the filter is and wherever it lies.
static void dw_one(const dw_tile* t) {
  for (size_t c = 0; c < t->channels; c += VL) {
    const size_t count = t->channels - c < VL ? t->channels - c : VL;
    vf acc = t->bias ? (count == VL ? vload(t->bias + c) : vload_part(t->bias + c, count)) : vset(0.0f);
    for (int i = 0; i < t->kernel_h; ++i) {
      if (!t->rows[i]) continue;
      for (int j = t->from; j < t->to; ++j) {
        const float* x = t->rows[i] + j * t->step + c;
        const float* w = t->weight + (size_t)(i * t->kernel_w + j) * t->channels + c;
        acc += count == VL ? vload(x) * vload(w) : vload_part(x, count) * vload_part(w, count);
      }
    }
    dw_store(t, 0, c, count, acc);
  }
}

INLINE int dw_pixels(int64_t stride) { return stride == 1 ? 4 : 2; }

static void dw_fast(const dw_tile* t, int kernel_w, int64_t stride) {
  if (kernel_w == 3 && stride == 1) dw_inside(4, 3, 1, t);
  if (kernel_w == 3 && stride == 2) dw_inside(2, 3, 2, t);
  if (kernel_w == 5 && stride == 1) dw_inside(4, 5, 1, t);
  if (kernel_w == 5 && stride == 2) dw_inside(2, 5, 2, t);
}

static void dw_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  enum { MOST_KERNEL = 64 };
  const dw_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int64_t* words = call->words;
  const int64_t high = dst->dim[2], wide = dst->dim[3], n = (int64_t)item / high, y = (int64_t)item % high;
  const int64_t stride = words[AT_DWCONV2D_STRIDE_W], dilation = words[AT_DWCONV2D_DILATION_W];
  const int64_t pixel = src->stride[3];
  const int has_residual = call->present >> 3 & 1, kernel_w = (int)words[AT_DWCONV2D_KERNEL_W];
  const float* image = (const float*)src->data + n * src->stride[0];
  const float *lines[MOST_KERNEL], *rows[MOST_KERNEL];
  dw_tile t = {.rows = rows,
               .weight = (const float*)call->src[1].data,
               .bias = call->present >> 2 & 1 ? (const float*)call->src[2].data : NULL,
               .pixel = pixel,
               .step = pixel * dilation,
               .residual_pixel = has_residual ? res->stride[3] : 0,
               .out_pixel = dst->stride[3],
               .channels = job->channels,
               .kernel_h = (int)words[AT_DWCONV2D_KERNEL_H],
               .kernel_w = kernel_w,
               .low = vset(job->act.low),
               .high = vset(job->act.high),
               .bounds = is_bounds(job->act.act)};
  for (int i = 0; i < t.kernel_h; ++i) {
    const int64_t row = y * words[AT_DWCONV2D_STRIDE_H] - words[AT_DWCONV2D_TOP] + i * words[AT_DWCONV2D_DILATION_H];
    lines[i] = row >= 0 && row < src->dim[2] ? image + row * src->stride[2] : NULL;
  }
  const int fast = dilation == 1 && (stride == 1 || stride == 2) && (kernel_w == 3 || kernel_w == 5);
  const int together = dw_pixels(stride);
  for (int64_t x = 0; x < wide;) {
    const int64_t left = x * stride - words[AT_DWCONV2D_LEFT];
    const int64_t reach = (together - 1) * stride + kernel_w;
    const int many = fast && left >= 0 && left + reach <= src->dim[3] && x + together <= wide;
    t.from = 0;
    t.to = kernel_w;
    while (t.from < t.to && left + t.from * dilation < 0) ++t.from;
    while (t.to > t.from && left + (t.to - 1) * dilation >= src->dim[3]) --t.to;
    for (int i = 0; i < t.kernel_h; ++i) rows[i] = lines[i] ? lines[i] + left * pixel : NULL;
    t.out = (float*)dst->data + n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3];
    t.residual =
        has_residual ? (const float*)res->data + n * res->stride[0] + y * res->stride[2] + x * res->stride[3] : NULL;
    if (many) {
      dw_fast(&t, kernel_w, stride);
    } else {
      dw_one(&t);
    }
    const int64_t done = many ? together : 1;
    if (!t.bounds) {
      for (int64_t p = 0; p < done; ++p) activate(job->act.act, t.out + p * t.out_pixel, job->channels);
    }
    x += done;
  }
}

static int dwconv(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  dw_job job = {call, (size_t)dst->dim[1], read_activation(call->words + AT_DWCONV2D_ACT)};
  at_pool_run(call->pool, (size_t)(dst->dim[0] * dst->dim[2]), dw_item, &job);
  return 0;
}
