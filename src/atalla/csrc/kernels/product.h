// GEMM and CONV2D: tiles of MR rows by one panel of columns; a row of A is found through a pointer for each tap.
//
//   out[m][n] = act(Σ_t Σ_k a[t][m][k] · w[panel(n)][t][k][n % PANEL] + bias[n] (+ residual[m][n]))
//   M rows (pixels of the output), T taps (1 for GEMM), K channels of the input, N columns (channels of the output)
//
// The sum over t and k is never reordered, so that every tiling gives the same bits.
#pragma once

#include "../internal.h"
#include "activation.h"

enum { NV = AT_PANEL / VL, MOST_ROWS = 96 };

typedef struct {
  const float* const* a;  // a[t * pitch + m]
  size_t pitch, taps, depth;
  const float* weight;  // panels of one group
  const float* bias;    // or NULL
  float* const* out;    // of each row of the block
  const float* const* residual;
  size_t columns;
  activation act;
} product;

INLINE void multiply(const int rows, const product* p, size_t first, const float* b, vf acc[][NV]) {
  for (size_t t = 0; t < p->taps; ++t) {
    const float* row[MR];
    for (int r = 0; r < rows; ++r) row[r] = p->a[t * p->pitch + first + (size_t)r];
    for (size_t k = 0; k < p->depth; ++k, b += AT_PANEL) {
      vf w[NV];
      for (int v = 0; v < NV; ++v) w[v] = vload(b + v * VL);
      for (int r = 0; r < rows; ++r) {
        const vf x = vset(row[r][k]);
        for (int v = 0; v < NV; ++v) acc[r][v] += x * w[v];
      }
    }
  }
}

INLINE void tile(const int rows, const product* p, size_t first, size_t column) {
  const size_t count = p->columns - column < AT_PANEL ? p->columns - column : AT_PANEL;
  vf acc[MR][NV];
  float padded[AT_PANEL] = {0};
  if (p->bias) memcpy(padded, p->bias + column, count * sizeof(float));
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < NV; ++v) acc[r][v] = vload(padded + v * VL);
  }
  multiply(rows, p, first, p->weight + column * p->taps * p->depth, acc);
  const vf low = vset(p->act.low), high = vset(p->act.high);
  const int bounds = is_bounds(p->act.act);
  for (int r = 0; r < rows; ++r) {
    float* out = p->out[first + (size_t)r] + column;
    const float* residual = p->residual ? p->residual[first + (size_t)r] + column : NULL;
    if (count == AT_PANEL) {
      for (int v = 0; v < NV; ++v) {
        vf x = acc[r][v];
        if (residual) x += vload(residual + v * VL);
        if (bounds) x = vceil_at(vfloor_at(x, low), high);
        vstore(out + v * VL, x);
      }
    } else {
      float row[AT_PANEL];
      for (int v = 0; v < NV; ++v) vstore(row + v * VL, acc[r][v]);
      for (size_t i = 0; i < count; ++i) {
        float x = row[i] + (residual ? residual[i] : 0.0f);
        if (bounds) x = p->act.low > x ? p->act.low : x;
        if (bounds) x = p->act.high < x ? p->act.high : x;
        out[i] = x;
      }
    }
    if (!bounds) activate(p->act.act, out, count);
  }
}

// One panel of columns for all rows of a block.
static void panel(const product* p, size_t rows, size_t column) {
  size_t first = 0;
  for (; first + MR <= rows; first += MR) tile(MR, p, first, column);
  switch (rows - first) {
#if MR > 5
    case 5:
      tile(5, p, first, column);
      break;
    case 4:
      tile(4, p, first, column);
      break;
    case 3:
      tile(3, p, first, column);
      break;
#endif
    case 2:
      tile(2, p, first, column);
      break;
    case 1:
      tile(1, p, first, column);
      break;
    default:
      break;
  }
}

// How a product is cut into items for threads.
typedef struct {
  size_t rows, block, blocks, panels, chunk, chunks;  // chunk: panels of an item
} cut;

INLINE cut cut_product(size_t rows, size_t depth, size_t columns, unsigned threads) {
  cut found = {.rows = rows, .panels = (columns + AT_PANEL - 1) / AT_PANEL};
  size_t block = 32768 / (depth ? depth : 1);  // rows of A of 128 kB
  if (block > MOST_ROWS) block = MOST_ROWS;
  block = block / MR * MR;
  if (block < MR) block = MR;
  found.block = block;
  found.blocks = (rows + block - 1) / block;
  found.chunk = found.panels;
  while (threads > 1 && found.chunk > 1 &&
         found.blocks * ((found.panels + found.chunk - 1) / found.chunk) < 4 * threads) {
    found.chunk = (found.chunk + 1) / 2;
  }
  found.chunks = found.panels ? (found.panels + found.chunk - 1) / found.chunk : 0;
  return found;
}

typedef struct {
  const at_call* call;
  cut cut;
} gemm_job;

// Element offset of row `m` of a view whose last dim is the row itself.
INLINE int64_t row_offset(const at_view* view, size_t m) {
  int64_t offset = 0;
  for (unsigned i = view->rank - 1u; i-- > 0;) {
    offset += (int64_t)(m % (size_t)view->dim[i]) * view->stride[i];
    m /= (size_t)view->dim[i];
  }
  return offset;
}

INLINE void run_panels(const product* p, const cut* cut, size_t chunk, size_t rows) {
  const size_t last = (chunk + 1) * cut->chunk < cut->panels ? (chunk + 1) * cut->chunk : cut->panels;
  for (size_t i = chunk * cut->chunk; i < last; ++i) panel(p, rows, i * AT_PANEL);
}

static void gemm_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const gemm_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int has_residual = call->present >> 3 & 1;
  const size_t first = item / job->cut.chunks * job->cut.block;
  const size_t rows = job->cut.rows - first < job->cut.block ? job->cut.rows - first : job->cut.block;
  const float *a[MOST_ROWS], *residual[MOST_ROWS];
  float* out[MOST_ROWS];
  for (size_t i = 0; i < rows; ++i) {
    a[i] = (const float*)src->data + row_offset(src, first + i);
    out[i] = (float*)dst->data + row_offset(dst, first + i);
    if (has_residual) residual[i] = (const float*)res->data + row_offset(res, first + i);
  }
  const product p = {
      .a = a,
      .taps = 1,
      .depth = (size_t)src->dim[src->rank - 1],
      .weight = (const float*)call->src[1].data,
      .bias = call->present >> 2 & 1 ? (const float*)call->src[2].data : NULL,
      .out = out,
      .residual = has_residual ? residual : NULL,
      .columns = (size_t)dst->dim[dst->rank - 1],
      .act = read_activation(call->words + AT_GEMM_ACT),
  };
  run_panels(&p, &job->cut, item % job->cut.chunks, rows);
}

static int gemm(const at_call* call) {
  const at_view* dst = &call->dst;
  const size_t columns = (size_t)dst->dim[dst->rank - 1], elements = at_elements(dst);
  if (elements == 0) return 0;
  const size_t depth = (size_t)call->src[0].dim[call->src[0].rank - 1];
  gemm_job job = {call, cut_product(elements / columns, depth, columns, at_pool_threads(call->pool))};
  at_pool_run(call->pool, job.cut.blocks * job.cut.chunks, gemm_item, &job);
  return 0;
}

typedef struct {
  const at_call* call;
  cut cut;
  size_t taps, depth, columns, groups;
  size_t items;  // of one group
} conv_job;

static size_t conv_need(const at_call* call) {
  const size_t taps = (size_t)(call->words[AT_CONV2D_KERNEL_H] * call->words[AT_CONV2D_KERNEL_W]);
  return taps * MOST_ROWS * sizeof(float*) + (size_t)call->src[0].dim[1] * sizeof(float) + AT_LINE;
}

// The pointers of one pixel of the output: one for each tap, to zeros outside of the image.
INLINE void find_taps(const at_call* call, const float* src, const float* zeros, int64_t y, int64_t x, const float** a,
                      size_t pitch) {
  const at_view* view = &call->src[0];
  const int64_t* words = call->words;
  const int64_t top = y * words[AT_CONV2D_STRIDE_H] - words[AT_CONV2D_TOP];
  const int64_t left = x * words[AT_CONV2D_STRIDE_W] - words[AT_CONV2D_LEFT];
  for (int64_t i = 0; i < words[AT_CONV2D_KERNEL_H]; ++i) {
    const int64_t row = top + i * words[AT_CONV2D_DILATION_H];
    const int inside = row >= 0 && row < view->dim[2];
    for (int64_t j = 0; j < words[AT_CONV2D_KERNEL_W]; ++j, a += pitch) {
      const int64_t column = left + j * words[AT_CONV2D_DILATION_W];
      *a = inside && column >= 0 && column < view->dim[3] ? src + row * view->stride[2] + column * view->stride[3]
                                                          : zeros;
    }
  }
}

static void conv_item(void* argument, size_t item, unsigned thread) {
  const conv_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int has_residual = call->present >> 3 & 1;
  const size_t group = item / job->items, within = item % job->items;
  const size_t first = within / job->cut.chunks * job->cut.block;
  const size_t rows = job->cut.rows - first < job->cut.block ? job->cut.rows - first : job->cut.block;
  char* scratch = call->scratch + thread * call->scratch_bytes;
  const float** a = (const float**)scratch;
  float* zeros = (float*)(scratch + job->taps * MOST_ROWS * sizeof(float*));
  memset(zeros, 0, job->depth * sizeof(float));
  const size_t wide = (size_t)dst->dim[3], high = (size_t)dst->dim[2];
  float* out[MOST_ROWS];
  const float* residual[MOST_ROWS];
  for (size_t i = 0; i < rows; ++i) {
    const size_t pixel = first + i;
    const int64_t x = (int64_t)(pixel % wide), y = (int64_t)(pixel / wide % high), n = (int64_t)(pixel / wide / high);
    find_taps(call, (const float*)src->data + n * src->stride[0] + (int64_t)(group * job->depth), zeros, y, x, a + i,
              rows);
    const int64_t channel = (int64_t)(group * job->columns);
    out[i] = (float*)dst->data + n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3] + channel;
    if (has_residual) {
      residual[i] = (const float*)res->data + n * res->stride[0] + y * res->stride[2] + x * res->stride[3] + channel;
    }
  }
  const product p = {
      .a = a,
      .pitch = rows,
      .taps = job->taps,
      .depth = job->depth,
      .weight = (const float*)call->src[1].data + group * job->cut.panels * AT_PANEL * job->taps * job->depth,
      .bias = call->present >> 2 & 1 ? (const float*)call->src[2].data + group * job->columns : NULL,
      .out = out,
      .residual = has_residual ? residual : NULL,
      .columns = job->columns,
      .act = read_activation(call->words + AT_CONV2D_ACT),
  };
  run_panels(&p, &job->cut, within % job->cut.chunks, rows);
}

static int conv(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  const int64_t* words = call->words;
  conv_job job = {.call = call, .groups = (size_t)words[AT_CONV2D_GROUPS]};
  job.taps = (size_t)(words[AT_CONV2D_KERNEL_H] * words[AT_CONV2D_KERNEL_W]);
  job.depth = (size_t)call->src[0].dim[1] / job.groups;
  job.columns = (size_t)dst->dim[1] / job.groups;
  const size_t rows = (size_t)(dst->dim[0] * dst->dim[2] * dst->dim[3]);
  job.cut = cut_product(rows, job.depth, job.columns, at_pool_threads(call->pool));
  job.items = job.cut.blocks * job.cut.chunks;
  at_pool_run(call->pool, job.items * job.groups, conv_item, &job);
  return 0;
}
