// RESIZE2D: of each pixel the nearest one, or four of them, interpolated; channels are innermost.
//
//   out[y][x][c] = (1 − v) · ((1 − u) · in[t][l][c] + u · in[t][r][c]) + v · ((1 − u) · in[b][l][c] + u · in[b][r][c])
//
// Where a place of a dim is one of src (u or v is no part of a sum), it is taken as it is.
#pragma once

#include <math.h>

#include "rounded.h"
#include "walk.h"

// Where a place of dst is in a dim of src.
typedef struct {
  int64_t first, second;
  float share;  // of the second
} between;

typedef struct {
  int64_t kind, have, made;
  float step;
} resize_axis;

typedef struct {
  const at_call* call;
  resize_axis high, wide;
  size_t channels, rows, each;  // rows of all images; of an item of the pool
} resize_job;

INLINE resize_axis resize_axis_of(const at_call* call, int dim, double scale) {
  resize_axis a = {.kind = call->words[AT_RESIZE2D_KIND], .have = call->src[0].dim[dim], .made = call->dst.dim[dim]};
  if (a.kind == AT_RESIZE_LINEAR_ALIGNED) {
    a.step = a.made > 1 ? (float)(a.have - 1) / (float)(a.made - 1) : 0.0f;
  } else {
    a.step = scale > 0 ? (float)(1.0 / scale) : (float)a.have / (float)a.made;
  }
  return a;
}

INLINE between resize_place(const resize_axis* a, int64_t place) {
  if (a->made == a->have) return (between){place, place, 0.0f};
  float at = (float)place;
  if (a->kind == AT_RESIZE_NEAREST_EXACT || a->kind == AT_RESIZE_LINEAR) at += 0.5f;
  at = rounded(at, a->step);
  if (a->kind == AT_RESIZE_LINEAR) at = at > 0.5f ? at - 0.5f : 0.0f;
  const int64_t found = (int64_t)at, first = found < a->have ? found : a->have - 1;
  if (a->kind == AT_RESIZE_NEAREST || a->kind == AT_RESIZE_NEAREST_EXACT) return (between){first, first, 0.0f};
  const float share = at - (float)first;
  return (between){first, first + 1 < a->have ? first + 1 : first, share < 1.0f ? share : 1.0f};
}

INLINE vf resize_load(const float* at, size_t count) { return count == VL ? vload(at) : vload_part(at, count); }

INLINE vf resize_mix(vf first, vf second, float share) {
  return vrounded(vset(1.0f - share), first) + vrounded(vset(share), second);
}

// A pixel of two rows of src, which are one where a whole row is taken.
INLINE void resize_pixel(float* out, const float* top, const float* bottom, float v, const between* x, int64_t step,
                         int mixes, size_t channels) {
  const int64_t left = x->first * step, right = x->second * step;
  for (size_t c = 0; c < channels; c += VL) {
    const size_t count = channels - c < VL ? channels - c : VL;
    vf value = resize_load(top + left + c, count);
    if (mixes) value = resize_mix(value, resize_load(top + right + c, count), x->share);
    if (bottom) {
      vf other = resize_load(bottom + left + c, count);
      if (mixes) other = resize_mix(other, resize_load(bottom + right + c, count), x->share);
      value = resize_mix(value, other, v);
    }
    if (count == VL) {
      vstore(out + c, value);
    } else {
      vstore_part(out + c, value, count);
    }
  }
}

static size_t resize_need(const at_call* call) {
  return at_bytes((unsigned __int128)call->dst.dim[3] * sizeof(between));
}

static void resize_item(void* argument, size_t item, unsigned thread) {
  const resize_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0];
  between* columns = (between*)(void*)(call->scratch + thread * call->scratch_bytes);
  for (int64_t x = 0; x < dst->dim[3]; ++x) columns[x] = resize_place(&job->wide, x);
  const int linear = job->high.kind == AT_RESIZE_LINEAR || job->high.kind == AT_RESIZE_LINEAR_ALIGNED;
  const int mixes = linear && job->wide.made != job->wide.have;
  const size_t last = (item + 1) * job->each < job->rows ? (item + 1) * job->each : job->rows;
  for (size_t row = item * job->each; row < last; ++row) {
    const int64_t n = (int64_t)row / dst->dim[2], y = (int64_t)row % dst->dim[2];
    const between found = resize_place(&job->high, y);
    const float* image = (const float*)(const void*)src->data + n * src->stride[0];
    const float* top = image + found.first * src->stride[2];
    const float* bottom = linear && job->high.made != job->high.have ? image + found.second * src->stride[2] : NULL;
    float* out = (float*)(void*)dst->data + n * dst->stride[0] + y * dst->stride[2];
    for (int64_t x = 0; x < dst->dim[3]; ++x, out += dst->stride[3]) {
      resize_pixel(out, top, bottom, found.share, &columns[x], src->stride[3], mixes, job->channels);
    }
  }
}

static int resize(const at_call* call) {
  const at_view* dst = &call->dst;
  resize_job job = {.call = call,
                    .high = resize_axis_of(call, 2, at_number(call->words[AT_RESIZE2D_SCALE_H])),
                    .wide = resize_axis_of(call, 3, at_number(call->words[AT_RESIZE2D_SCALE_W])),
                    .channels = (size_t)dst->dim[1],
                    .rows = (size_t)(dst->dim[0] * dst->dim[2])};
  const size_t threads = at_pool_threads(call->pool), parts = threads > 1 ? threads * 4 : 1;
  job.each = (job.rows + parts - 1) / parts;
  at_pool_run(call->pool, (job.rows + job.each - 1) / job.each, resize_item, &job);
  return 0;
}
