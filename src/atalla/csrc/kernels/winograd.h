// CONV2D_WINO: F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3) of Lavin and Gray (2015). Tiles of 6 × 6 of the input become 36
// products, those of 4 × 4 become 16; how many the weights are made for says which. With stride 2 tiles of 5 × 5 become
// 25: every second pixel meets the outer two weights, by F(2, 2), and the others the middle one.
//
//   V[p][tile][k] = Bᵀ d B    M[p] = V[p] · U[p]    out = Aᵀ M A
//
// A block of tiles at a time, so that V and M stay in the second-level cache. Where there are too few tiles for all
// threads, each makes some columns of all: it reads fewer weights then, and makes V for itself.
#pragma once

#include "product.h"

enum {
  WINO_TILES = 48,           // of a block, at most
  ENOUGH_TILES = 2 * MOST_2  // of a block, by which weights are multiplied that were read for it
};

typedef struct {
  const at_call* call;
  at_wino_tile tile;
  size_t depth, from, columns, panels, across, down, tiles, block;  // columns from one to another are written
  size_t chunk, chunks;  // panels of an item, and how many items make a block
  activation act;
} wino_job;

// Floats from one place of V or M to the next: an odd number of lines of the cache, so that the places of a tile do not
// meet in a few sets of it.
INLINE size_t apart_by(size_t floats) {
  const size_t line = AT_LINE / sizeof(float);
  return ((floats + line - 1) / line | 1) * line;
}

static size_t wino_need(const at_call* call) {
  const size_t depth = (size_t)call->src[0].dim[1], columns = (size_t)call->dst.dim[1];
  const size_t width = (columns + AT_PANEL - 1) / AT_PANEL * AT_PANEL;
  const size_t pixels = apart_by(WINO_TILES * depth) + apart_by(WINO_TILES * width);
  return ((size_t)call->src[1].dim[1] * pixels + VL) * sizeof(float);
}

// Bᵀ of as many values as `edge` is, a constant.
INLINE void wino_in(const int edge, const vf* x, vf* out) {
  if (edge == 4) {
    out[0] = x[0] - x[2];
    out[1] = x[1] + x[2];
    out[2] = x[2] - x[1];
    out[3] = x[1] - x[3];
    return;
  }
  if (edge == 5) {
    out[0] = x[0] - x[2];
    out[1] = x[1];
    out[2] = x[2];
    out[3] = x[3];
    out[4] = x[4] - x[2];
    return;
  }
  const vf four = vset(4.0f), five = vset(5.0f), two = vset(2.0f);
  const vf a = x[4] - four * x[2], b = x[3] - four * x[1], c = x[4] - x[2], d = two * (x[3] - x[1]);
  out[0] = four * x[0] - five * x[2] + x[4];
  out[1] = a + b;
  out[2] = a - b;
  out[3] = c + d;
  out[4] = c - d;
  out[5] = four * x[1] - five * x[3] + x[5];
}

// Aᵀ of as many values.
INLINE void wino_out(const int edge, const vf* x, vf* out) {
  if (edge == 5) {
    out[0] = x[0] + x[1] + x[2];
    out[1] = x[2] + x[3] + x[4];
    return;
  }
  const vf a = x[1] + x[2], b = x[1] - x[2];
  if (edge == 4) {
    out[0] = x[0] + a;
    out[1] = b - x[3];
    return;
  }
  const vf c = x[3] + x[4], d = x[3] - x[4];
  out[0] = x[0] + a + c;
  out[1] = b + vset(2.0f) * d;
  out[2] = a + vset(4.0f) * c;
  out[3] = b + vset(8.0f) * d + x[5];
}

// One tile of the input into V: a row for each of its pixels; rows are `pitch` floats apart.
INLINE void read_tile(const int edge, const at_view* src, int64_t n, int64_t top, int64_t left, size_t depth, float* v,
                      size_t pitch) {
  const float* image = (const float*)src->data + n * src->stride[0];
  for (size_t c = 0; c < depth; c += VL) {
    const size_t count = depth - c < VL ? depth - c : VL;
    vf half[6][6];
    for (int i = 0; i < edge; ++i) {
      const int64_t row = top + i;
      vf x[6];
      for (int j = 0; j < edge; ++j) {
        const int64_t column = left + j;
        x[j] = vset(0.0f);
        if (row >= 0 && row < src->dim[2] && column >= 0 && column < src->dim[3]) {
          const float* at = image + row * src->stride[2] + column * src->stride[3] + (int64_t)c;
          x[j] = count == VL ? vload(at) : vload_part(at, count);
        }
      }
      wino_in(edge, x, half[i]);
    }
    for (int j = 0; j < edge; ++j) {
      vf x[6], y[6];
      for (int i = 0; i < edge; ++i) x[i] = half[i][j];
      wino_in(edge, x, y);
      for (int i = 0; i < edge; ++i) {
        float* at = v + (size_t)(i * edge + j) * pitch + c;
        if (count == VL) {
          vstore(at, y[i]);
        } else {
          vstore_part(at, y[i], count);
        }
      }
    }
  }
}

static void wino_read(size_t edge, const at_view* src, int64_t n, int64_t top, int64_t left, size_t depth, float* v,
                      size_t pitch) {
  if (edge == 4) {
    read_tile(4, src, n, top, left, depth, v, pitch);
  } else if (edge == 5) {
    read_tile(5, src, n, top, left, depth, v, pitch);
  } else {
    read_tile(6, src, n, top, left, depth, v, pitch);
  }
}

// The rows of M of a tile into one of the output.
INLINE void write_tile(const int edge, const int side, const wino_job* job, const float* m, size_t pitch, int64_t n,
                       int64_t top, int64_t left) {
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *res = &call->src[3];
  const float* bias = call->present >> 2 & 1 ? (const float*)call->src[2].data : NULL;
  const int has_residual = call->present >> 3 & 1, bounds = is_bounds(job->act.act);
  const vf low = vset(job->act.low), high = vset(job->act.high);
  for (size_t c = job->from; c < job->columns; c += VL) {
    const size_t count = job->columns - c < VL ? job->columns - c : VL;
    vf half[4][6];
    for (int j = 0; j < edge; ++j) {
      vf x[6], y[4];
      for (int i = 0; i < edge; ++i) x[i] = vload(m + (size_t)(i * edge + j) * pitch + c);
      wino_out(edge, x, y);
      for (int i = 0; i < side; ++i) half[i][j] = y[i];
    }
    const vf start = bias ? vload_part(bias + c, count) : vset(0.0f);
    for (int i = 0; i < side; ++i) {
      const int64_t row = top + i;
      if (row >= dst->dim[2]) break;
      vf y[4];
      wino_out(edge, half[i], y);
      for (int j = 0; j < side; ++j) {
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

static void wino_write(const wino_job* job, const float* m, size_t pitch, int64_t n, int64_t top, int64_t left) {
  if (job->tile.edge == 4) {
    write_tile(4, 2, job, m, pitch, n, top, left);
  } else if (job->tile.edge == 5) {
    write_tile(5, 2, job, m, pitch, n, top, left);
  } else {
    write_tile(6, 4, job, m, pitch, n, top, left);
  }
}

// Where a tile's result begins.
INLINE void place_tile(const wino_job* job, size_t tile, int64_t* n, int64_t* top, int64_t* left) {
  const size_t step = job->tile.side;
  *left = (int64_t)(tile % job->across * step);
  *top = (int64_t)(tile / job->across % job->down * step);
  *n = (int64_t)(tile / job->across / job->down);
}

static void wino_item(void* argument, size_t item, unsigned thread) {
  const wino_job* job = argument;
  const at_call* call = job->call;
  const size_t first = item / job->chunks * job->block, places = job->tile.edge * job->tile.edge;
  const size_t count = job->tiles - first < job->block ? job->tiles - first : job->block;
  const size_t width = job->panels * AT_PANEL, panel = item % job->chunks * job->chunk;
  const size_t v_pitch = apart_by(count * job->depth), m_pitch = apart_by(count * width);
  wino_job part = *job;
  part.from = panel * AT_PANEL;
  if (panel + job->chunk < job->panels) part.columns = (panel + job->chunk) * AT_PANEL;
  float* v = (float*)(call->scratch + thread * call->scratch_bytes);
  float* m = v + places * v_pitch;
  const int64_t stride = (int64_t)job->tile.stride;
  int64_t n, top, left;
  for (size_t i = 0; i < count; ++i) {
    place_tile(job, first + i, &n, &top, &left);
    wino_read(job->tile.edge, &call->src[0], n, top * stride - call->words[AT_CONV2D_WINO_TOP],
              left * stride - call->words[AT_CONV2D_WINO_LEFT], job->depth, v + i * job->depth, v_pitch);
  }
  for (size_t place = 0; place < places; ++place) {
    const float* weight = (const float*)call->src[1].data + place * width * job->depth;
    const product p = {.a = {.first = v + place * v_pitch, .step = (int64_t)job->depth},
                       .taps = 1,
                       .depth = job->depth,
                       .weight = weight,
                       .after = (uintptr_t)weight + (width + part.from) * job->depth * sizeof(float),
                       .out = {.first = m + place * m_pitch, .step = (int64_t)width},
                       .columns = width,
                       .act = {AT_ACT_NONE, -INFINITY, INFINITY}};
    multiply_block(&p, count, panel, (part.columns + AT_PANEL - 1) / AT_PANEL);
  }
  for (size_t i = 0; i < count; ++i) {
    place_tile(job, first + i, &n, &top, &left);
    wino_write(&part, m + i * width, m_pitch, n, top, left);
  }
}

static int wino(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  wino_job job = {.call = call,
                  .tile = at_wino_tile_of(call->src[1].dim[1]),
                  .depth = (size_t)call->src[0].dim[1],
                  .columns = (size_t)dst->dim[1],
                  .act = read_activation(call->words + AT_CONV2D_WINO_ACT)};
  const size_t step = job.tile.side;
  job.across = ((size_t)dst->dim[3] + step - 1) / step;
  job.down = ((size_t)dst->dim[2] + step - 1) / step;
  job.panels = (job.columns + AT_PANEL - 1) / AT_PANEL;
  job.tiles = job.across * job.down * (size_t)dst->dim[0];
  const size_t threads = at_pool_threads(call->pool), fewest = (job.tiles + WINO_TILES - 1) / WINO_TILES;
  size_t blocks = (fewest + threads - 1) / threads * threads;
  job.chunk = job.panels;
  if (threads > 1 && job.tiles < blocks * ENOUGH_TILES) {
    blocks = fewest;
    const size_t chunks = (threads + blocks - 1) / blocks;
    job.chunk = ((job.panels + chunks - 1) / chunks + WHOLE - 1) / WHOLE * WHOLE;
  }
  job.chunks = (job.panels + job.chunk - 1) / job.chunk;
  job.block = (job.tiles + blocks - 1) / blocks;
  at_pool_run(call->pool, (job.tiles + job.block - 1) / job.block * job.chunks, wino_item, &job);
  return 0;
}
