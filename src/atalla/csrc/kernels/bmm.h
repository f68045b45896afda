// BMM: products of two matrices that are known only at run time; the second is packed on the way.
#pragma once

#include "one_row.h"
#include "product.h"

// The same where columns are rows in memory, VL by VL.
static void pack_turned(const float* at, int64_t n_stride, size_t depth, size_t count, float* into) {
  for (size_t n = 0; n < AT_PANEL; n += VL) {
    for (size_t k = 0; k < depth; k += VL) {
      const size_t here = depth - k < VL ? depth - k : VL;
      vf x[VL];
      for (size_t i = 0; i < VL; ++i) {
        const float* from = at + (int64_t)(n + i) * n_stride + k;
        x[i] = n + i >= count ? vset(0.0f) : here == VL ? vload(from) : vload_part(from, here);
      }
      vtranspose(x);
      for (size_t i = 0; i < here; ++i) vstore(into + (k + i) * AT_PANEL + n, x[i]);
    }
  }
}

// K × PANEL floats of b[k][n], from column `first`, zeros beyond `columns`.
static void pack_panel(const float* b, int64_t k_stride, int64_t n_stride, size_t depth, size_t first, size_t columns,
                       float* into) {
  const size_t count = columns - first < AT_PANEL ? columns - first : AT_PANEL;
  const float* at = b + (int64_t)first * n_stride;
  if (n_stride == 1 && count == AT_PANEL) {
    for (size_t k = 0; k < depth; ++k) memcpy(into + k * AT_PANEL, at + (int64_t)k * k_stride, AT_LINE);
    return;
  }
  if (k_stride == 1) {
    pack_turned(at, n_stride, depth, count, into);
    return;
  }
  memset(into, 0, depth * AT_PANEL * sizeof(float));
  for (size_t k = 0; k < depth; ++k) {
    for (size_t n = 0; n < count; ++n) into[k * AT_PANEL + n] = at[(int64_t)k * k_stride + (int64_t)n * n_stride];
  }
}

enum { MOST_PACKED = 1 << 15 };  // floats of packed panels, if there is more than one

typedef struct {
  const at_call* call;
  size_t rows, depth, columns, block, blocks;
  size_t together;  // columns that are packed at once
} bmm_job;

INLINE size_t packed_together(size_t depth, size_t columns) {
  const size_t most = MOST_PACKED / (depth * AT_PANEL + 1) * AT_PANEL, all = (columns + AT_PANEL - 1) / AT_PANEL;
  if (most >= all * AT_PANEL) return all * AT_PANEL;
  return most < AT_PANEL ? AT_PANEL : most;
}

static size_t bmm_need(const at_call* call) {
  const at_view *a = &call->src[0], *dst = &call->dst;
  const size_t depth = (size_t)a->dim[a->rank - 1];
  return depth * (packed_together(depth, (size_t)dst->dim[dst->rank - 1]) + MOST_ROWS) * sizeof(float);
}

// Offset of a batch: of all dims but the last two.
INLINE int64_t batch_offset(const at_view* view, size_t batch) {
  int64_t offset = 0;
  for (unsigned i = view->rank - 2u; i-- > 0;) {
    offset += (int64_t)(batch % (size_t)view->dim[i]) * view->stride[i];
    batch /= (size_t)view->dim[i];
  }
  return offset;
}

// The rows of the first matrix, whose elements shall lie densely; `room` is for those that do not.
INLINE rows dense_rows(const at_view* a, float* data, size_t count, size_t depth, float* room) {
  const int64_t step = a->stride[a->rank - 1], down = a->stride[a->rank - 2];
  if (step == 1) return (rows){.first = data, .step = down};
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < depth; ++k) room[i * depth + k] = data[(int64_t)i * down + (int64_t)k * step];
  }
  return (rows){.first = room, .step = (int64_t)depth};
}

static void bmm_item(void* argument, size_t item, unsigned thread) {
  const bmm_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *a = &call->src[0], *b = &call->src[1];
  const size_t batch = item / job->blocks, first = item % job->blocks * job->block;
  const size_t count = job->rows - first < job->block ? job->rows - first : job->block;
  float* packed = (float*)(void*)(call->scratch + thread * call->scratch_bytes);
  float* left = (float*)(void*)a->data + batch_offset(a, batch) + (int64_t)first * a->stride[a->rank - 2];
  const float* right = (const float*)(const void*)b->data + batch_offset(b, batch);
  const int64_t down = dst->stride[dst->rank - 2];
  float* result = (float*)(void*)dst->data + batch_offset(dst, batch) + (int64_t)first * down;
  const float scale = (float)at_number(call->words[AT_BMM_SCALE]);
  product p = {.a = dense_rows(a, left, count, job->depth, packed + job->depth * job->together),
               .taps = 1,
               .depth = job->depth,
               .weight = packed,
               .act = {AT_ACT_NONE, -INFINITY, INFINITY}};
  const int64_t k_stride = b->stride[b->rank - 2], n_stride = b->stride[b->rank - 1];
  if (job->rows == 1 && is_read_as_it_lies(k_stride, n_stride)) {
    multiply_one_row(p.a.first, right, k_stride, n_stride, job->depth, job->columns, result);
    for (size_t n = 0; n < job->columns && scale != 1.0f; ++n) result[n] *= scale;
    return;
  }
  for (size_t column = 0; column < job->columns; column += job->together) {
    p.columns = job->columns - column < job->together ? job->columns - column : job->together;
    p.out = (rows){.first = result + column, .step = down};
    const size_t panels = (p.columns + AT_PANEL - 1) / AT_PANEL;
    for (size_t i = 0; i < panels; ++i) {
      pack_panel(right, k_stride, n_stride, job->depth, column + i * AT_PANEL, job->columns,
                 packed + i * AT_PANEL * job->depth);
    }
    multiply_block(&p, count, 0, panels);
    if (scale == 1.0f) continue;
    for (size_t i = 0; i < count; ++i) {
      float* out = row_at(&p.out, i);
      for (size_t n = 0; n < p.columns; ++n) out[n] *= scale;
    }
  }
}

static int bmm(const at_call* call) {
  const at_view *dst = &call->dst, *a = &call->src[0];
  const size_t elements = at_elements(dst);
  if (!elements) return 0;
  bmm_job job = {
      .call = call,
      .depth = (size_t)a->dim[a->rank - 1],
  };
  job.block = block_of(job.depth);
  job.rows = (size_t)dst->dim[dst->rank - 2];
  job.columns = (size_t)dst->dim[dst->rank - 1];
  job.together = packed_together(job.depth, job.columns);
  job.blocks = (job.rows + job.block - 1) / job.block;
  at_pool_run(call->pool, elements / job.rows / job.columns * job.blocks, bmm_item, &job);
  return 0;
}
