// GEMM: rows of a view by packed weights.
#pragma once

#include "product.h"

typedef struct {
  const at_call* call;
  cut cut;
} gemm_job;

static void gemm_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const gemm_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = &call->src[3];
  const int has_residual = call->present >> 3 & 1;
  const size_t first = item / job->cut.chunks * job->cut.block;
  const size_t rows = job->cut.rows - first < job->cut.block ? job->cut.rows - first : job->cut.block;
  float *a[MOST_ROWS], *residual[MOST_ROWS], *out[MOST_ROWS];
  const way from = way_of(src), to = way_of(dst);
  product p = {
      .a = rows_from(&from, (float*)src->data, first, rows, a),
      .taps = 1,
      .depth = (size_t)src->dim[src->rank - 1],
      .weight = (const float*)call->src[1].data,
      .bias = call->present >> 2 & 1 ? (const float*)call->src[2].data : NULL,
      .out = rows_from(&to, (float*)dst->data, first, rows, out),
      .columns = (size_t)dst->dim[dst->rank - 1],
      .act = read_activation(call->words + AT_GEMM_ACT),
  };
  if (has_residual) {
    const way of = way_of(res);
    p.residual = rows_from(&of, (float*)res->data, first, rows, residual);
  }
  run_item(&p, &job->cut, item % job->cut.chunks, rows);
}

static int gemm(const at_call* call) {
  const at_view* dst = &call->dst;
  const size_t columns = (size_t)dst->dim[dst->rank - 1], elements = at_elements(dst);
  if (elements == 0) return 0;
  const size_t depth = (size_t)call->src[0].dim[call->src[0].rank - 1];
  gemm_job job = {call, cut_rows(call, elements / columns, columns, 1, depth)};
  at_pool_run(call->pool, job.cut.blocks * job.cut.chunks, gemm_item, &job);
  return 0;
}
