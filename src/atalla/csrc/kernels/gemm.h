// GEMM: rows of a view by packed weights.
#pragma once

#include "product.h"

typedef struct {
  const at_call* call;
  cut cut;
} gemm_job;

// Where rows are, one after the other, of a view whose last dim is the row itself.
typedef struct {
  const at_view* view;
  int64_t index[AT_DIMS], offset;
} rows_at;

INLINE rows_at rows_from(const at_view* view, size_t m) {
  rows_at found = {.view = view};
  for (unsigned i = view->rank - 1u; i-- > 0;) {
    found.index[i] = (int64_t)(m % (size_t)view->dim[i]);
    found.offset += found.index[i] * view->stride[i];
    m /= (size_t)view->dim[i];
  }
  return found;
}

INLINE int64_t next_row(rows_at* at) {
  const int64_t offset = at->offset;
  for (unsigned i = at->view->rank - 1u; i-- > 0;) {
    at->offset += at->view->stride[i];
    if (++at->index[i] < at->view->dim[i]) break;
    at->offset -= at->view->dim[i] * at->view->stride[i];
    at->index[i] = 0;
  }
  return offset;
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
  rows_at from = rows_from(src, first), to = rows_from(dst, first);
  for (size_t i = 0; i < rows; ++i) {
    a[i] = (const float*)src->data + next_row(&from);
    out[i] = (float*)dst->data + next_row(&to);
  }
  if (has_residual) {
    rows_at of = rows_from(res, first);
    for (size_t i = 0; i < rows; ++i) residual[i] = (const float*)res->data + next_row(&of);
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
  run_item(&p, &job->cut, item % job->cut.chunks, rows);
}

static int gemm(const at_call* call) {
  const at_view* dst = &call->dst;
  const size_t columns = (size_t)dst->dim[dst->rank - 1], elements = at_elements(dst);
  if (elements == 0) return 0;
  gemm_job job = {call, cut_product(elements / columns, columns, at_pool_threads(call->pool))};
  at_pool_run(call->pool, job.cut.blocks * job.cut.chunks, gemm_item, &job);
  return 0;
}
