// CONV2D_WINO: F(4 × 4, 3 × 3) of Lavin and Gray (2015). Tiles of 6 × 6 of the input become 36 products.
//
//   V[p][tile][k] = Bᵀ d B    M[p] = V[p] · U[p]    out = Aᵀ M A
//
// A block of tiles at a time, so that V and M stay in the second-level cache.
#pragma once

#include "product.h"

enum { WINO_TILES = 48 };  // of a block, at most

typedef struct {
  const at_call* call;
  size_t depth, columns, panels, across, down, tiles, block;
  activation act;
} wino_job;

static size_t wino_need(const at_call* call) {
  const size_t depth = (size_t)call->src[0].dim[1], columns = (size_t)call->dst.dim[1];
  const size_t panels = (columns + AT_PANEL - 1) / AT_PANEL;
  return (36 * WINO_TILES * (depth + panels * AT_PANEL) + VL) * sizeof(float);
}

// Bᵀ of six values.
INLINE void wino_in(const vf x[6], vf out[6]) {
  const vf four = vset(4.0f), five = vset(5.0f), two = vset(2.0f);
  const vf a = x[4] - four * x[2], b = x[3] - four * x[1], c = x[4] - x[2], d = two * (x[3] - x[1]);
  out[0] = four * x[0] - five * x[2] + x[4];
  out[1] = a + b;
  out[2] = a - b;
  out[3] = c + d;
  out[4] = c - d;
  out[5] = four * x[1] - five * x[3] + x[5];
}

// Aᵀ of six values.
INLINE void wino_out(const vf x[6], vf out[4]) {
  const vf a = x[1] + x[2], b = x[1] - x[2], c = x[3] + x[4], d = x[3] - x[4];
  out[0] = x[0] + a + c;
  out[1] = b + vset(2.0f) * d;
  out[2] = a + vset(4.0f) * c;
  out[3] = b + vset(8.0f) * d + x[5];
}

// One tile of the input into V: 36 rows that are `pitch` floats apart.
static void wino_read(const at_view* src, int64_t n, int64_t top, int64_t left, size_t depth, float* v, size_t pitch) {
  const float* image = (const float*)src->data + n * src->stride[0];
  for (size_t c = 0; c < depth; c += VL) {
    const size_t count = depth - c < VL ? depth - c : VL;
    vf half[6][6];
    for (int i = 0; i < 6; ++i) {
      const int64_t row = top + i;
      vf x[6];
      for (int j = 0; j < 6; ++j) {
        const int64_t column = left + j;
        const float* at = image + row * src->stride[2] + column * src->stride[3] + (int64_t)c;
        const int inside = row >= 0 && row < src->dim[2] && column >= 0 && column < src->dim[3];
        x[j] = !inside ? vset(0.0f) : count == VL ? vload(at) : vload_part(at, count);
      }
      wino_in(x, half[i]);
    }
    for (int j = 0; j < 6; ++j) {
      vf x[6], y[6];
      for (int i = 0; i < 6; ++i) x[i] = half[i][j];
      wino_in(x, y);
      for (int i = 0; i < 6; ++i) {
        float* at = v + (size_t)(i * 6 + j) * pitch + c;
        if (count == VL) {
          vstore(at, y[i]);
        } else {
          vstore_part(at, y[i], count);
        }
      }
    }
  }
}

// 36 rows of M into one tile of the output.
static void wino_write(const wino_job* job, const float* m, size_t pitch, int64_t n, int64_t top, int64_t left) {
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *res = &call->src[3];
  const float* bias = call->present >> 2 & 1 ? (const float*)call->src[2].data : NULL;
  const int has_residual = call->present >> 3 & 1, bounds = is_bounds(job->act.act);
  const vf low = vset(job->act.low), high = vset(job->act.high);
  for (size_t c = 0; c < job->columns; c += VL) {
    const size_t count = job->columns - c < VL ? job->columns - c : VL;
    vf half[4][6];
    for (int j = 0; j < 6; ++j) {
      vf x[6], y[4];
      for (int i = 0; i < 6; ++i) x[i] = vload(m + (size_t)(i * 6 + j) * pitch + c);
      wino_out(x, y);
      for (int i = 0; i < 4; ++i) half[i][j] = y[i];
    }
    const vf start = bias ? vload_part(bias + c, count) : vset(0.0f);
    for (int i = 0; i < 4; ++i) {
      const int64_t row = top + i;
      if (row >= dst->dim[2]) break;
      vf y[4];
      wino_out(half[i], y);
      for (int j = 0; j < 4; ++j) {
        const int64_t column = left + j;
        if (column >= dst->dim[3]) break;
        vf x = y[j] + start;
        if (has_residual) {
          const int64_t at = n * res->stride[0] + row * res->stride[2] + column * res->stride[3] + (int64_t)c;
          x += vload_part((const float*)res->data + at, count);
        }
        x = bounds ? vceil_at(vfloor_at(x, low), high) : activated(job->act.act, x);
        float* at = (float*)dst->data + n * dst->stride[0] + row * dst->stride[2] + column * dst->stride[3] + c;
        if (count == VL) {
          vstore(at, x);
        } else {
          vstore_part(at, x, count);
        }
      }
    }
  }
}

static void wino_item(void* argument, size_t item, unsigned thread) {
  const wino_job* job = argument;
  const at_call* call = job->call;
  const size_t first = item * job->block;
  const size_t count = job->tiles - first < job->block ? job->tiles - first : job->block;
  const size_t width = job->panels * AT_PANEL;
  float* v = (float*)(call->scratch + thread * call->scratch_bytes);
  float* m = v + 36 * WINO_TILES * job->depth;
  for (size_t i = 0; i < count; ++i) {
    const size_t tile = first + i;
    const int64_t left = (int64_t)(tile % job->across) * 4, top = (int64_t)(tile / job->across % job->down) * 4;
    const int64_t n = (int64_t)(tile / job->across / job->down);
    wino_read(&call->src[0], n, top - call->words[AT_CONV2D_WINO_TOP], left - call->words[AT_CONV2D_WINO_LEFT],
              job->depth, v + i * job->depth, WINO_TILES * job->depth);
  }
  for (size_t place = 0; place < 36; ++place) {
    const product p = {.a = {.first = v + place * WINO_TILES * job->depth, .step = (int64_t)job->depth},
                       .taps = 1,
                       .depth = job->depth,
                       .weight = (const float*)call->src[1].data + place * width * job->depth,
                       .out = {.first = m + place * WINO_TILES * width, .step = (int64_t)width},
                       .columns = width,
                       .act = {AT_ACT_NONE, -INFINITY, INFINITY}};
    multiply_block(&p, count, 0, job->panels);
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t tile = first + i;
    const int64_t left = (int64_t)(tile % job->across) * 4, top = (int64_t)(tile / job->across % job->down) * 4;
    wino_write(job, m + i * width, WINO_TILES * width, (int64_t)(tile / job->across / job->down), top, left);
  }
}

static int wino(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  wino_job job = {.call = call,
                  .depth = (size_t)call->src[0].dim[1],
                  .columns = (size_t)dst->dim[1],
                  .across = (size_t)(dst->dim[3] + 3) / 4,
                  .down = (size_t)(dst->dim[2] + 3) / 4,
                  .act = read_activation(call->words + AT_CONV2D_WINO_ACT)};
  job.panels = (job.columns + AT_PANEL - 1) / AT_PANEL;
  job.tiles = job.across * job.down * (size_t)dst->dim[0];
  const size_t threads = at_pool_threads(call->pool), fewest = (job.tiles + WINO_TILES - 1) / WINO_TILES;
  const size_t blocks = (fewest + threads - 1) / threads * threads;
  job.block = (job.tiles + blocks - 1) / blocks;
  at_pool_run(call->pool, (job.tiles + job.block - 1) / job.block, wino_item, &job);
  return 0;
}
