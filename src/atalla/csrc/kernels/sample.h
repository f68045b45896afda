// SAMPLE2D: an image where a grid says; channels are innermost.
//
//   out[y][x][c] = Σ over the four pixels around the place: (1 − |Δx|) · (1 − |Δy|) · in[…][…][c]
//
// As torch has it (GridSampler.h): what lies outside is zero, or is brought inside first.
#pragma once

#include <math.h>

#include "rounded.h"
#include "walk.h"

typedef struct {
  const at_call* call;
  size_t channels;
} sample_job;

// Between 0 and the last pixel; NaN becomes 0.
INLINE float sample_clipped(float at, int64_t size) {
  const float last = (float)(size - 1);
  return at > 0 ? (at < last ? at : last) : 0.0f;
}

// Thrown back at the edges as often as it takes: at the outer pixels' centres, or at their borders.
INLINE float sample_reflected(float at, int64_t size, int64_t aligned) {
  const float least = aligned ? 0.0f : -0.5f, span = (float)(aligned ? size - 1 : size);
  if (span <= 0) return 0;
  const float away = fabsf(at - least), rest = fmodf(away, span);
  const float times = floorf(away / span);
  return fmodf(times, 2.0f) == 0 ? rest + least : span - rest + least;
}

// A number of the grid as a place in the image; what no place can be lies outside.
INLINE float sample_place(float number, int64_t size, int64_t outside, int64_t aligned) {
  const float moved = number + 1.0f;
  float at = aligned ? rounded(moved / 2.0f, (float)(size - 1)) : (rounded(moved, (float)size) - 1.0f) / 2.0f;
  if (outside == AT_OUTSIDE_REFLECTION) at = sample_reflected(at, size, aligned);
  if (outside != AT_OUTSIDE_ZEROS) at = sample_clipped(at, size);
  return at > -1073741824.0f && at < 1073741824.0f ? at : -100.0f;
}

// Adds a pixel that lies inside to a row of channels.
INLINE void sample_add(const sample_job* job, const float* image, int64_t y, int64_t x, float weight, float* out) {
  const at_view* src = &job->call->src[0];
  if (y < 0 || y >= src->dim[2] || x < 0 || x >= src->dim[3]) return;
  const float* at = image + y * src->stride[2] + x * src->stride[3];
  size_t c = 0;
  for (; c + VL <= job->channels; c += VL) vstore(out + c, vload(out + c) + vrounded(vset(weight), vload(at + c)));
  for (; c < job->channels; ++c) out[c] += rounded(weight, at[c]);
}

static void sample_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const sample_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *grid = &call->src[1];
  const int64_t* words = call->words;
  const int64_t n = (int64_t)item / dst->dim[2], row = (int64_t)item % dst->dim[2];
  const float* image = (const float*)(const void*)src->data + n * src->stride[0];
  const float* where = (const float*)(const void*)grid->data + n * grid->stride[0] + row * grid->stride[1];
  float* out = (float*)(void*)dst->data + n * dst->stride[0] + row * dst->stride[2];
  for (int64_t i = 0; i < dst->dim[3]; ++i, where += grid->stride[2], out += dst->stride[3]) {
    const float x = sample_place(where[0], src->dim[3], words[AT_SAMPLE2D_OUTSIDE], words[AT_SAMPLE2D_ALIGNED]);
    const float y =
        sample_place(where[grid->stride[3]], src->dim[2], words[AT_SAMPLE2D_OUTSIDE], words[AT_SAMPLE2D_ALIGNED]);
    memset(out, 0, job->channels * sizeof(float));
    if (words[AT_SAMPLE2D_KIND] == AT_SAMPLE_NEAREST) {
      sample_add(job, image, (int64_t)nearbyintf(y), (int64_t)nearbyintf(x), 1.0f, out);
      continue;
    }
    const float left = floorf(x), top = floorf(y), u = x - left, v = y - top;
    const float u0 = (left + 1.0f) - x, v0 = (top + 1.0f) - y;
    const int64_t x0 = (int64_t)left, y0 = (int64_t)top;
    sample_add(job, image, y0, x0, rounded(u0, v0), out);
    sample_add(job, image, y0, x0 + 1, rounded(u, v0), out);
    sample_add(job, image, y0 + 1, x0, rounded(u0, v), out);
    sample_add(job, image, y0 + 1, x0 + 1, rounded(u, v), out);
  }
}

static int sample(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  sample_job job = {call, (size_t)dst->dim[1]};
  at_pool_run(call->pool, (size_t)(dst->dim[0] * dst->dim[2]), sample_item, &job);
  return 0;
}
