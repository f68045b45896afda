// ATTENTION: shares of keys for each query, by products of matrices that are packed on the way.
#pragma once

#include "bmm.h"

typedef struct {
  const at_call* call;
  size_t heads, length, keys, size, value_size, key_panels, value_panels, block, chunk, chunks;
} attention_job;

INLINE attention_job attention_of(const at_call* call) {
  const at_view *q = &call->src[0], *v = &call->src[2];
  attention_job job = {.call = call,
                       .heads = (size_t)q->dim[1],
                       .length = (size_t)q->dim[2],
                       .keys = (size_t)v->dim[2],
                       .size = (size_t)q->dim[3],
                       .value_size = (size_t)v->dim[3]};
  job.key_panels = (job.keys + AT_PANEL - 1) / AT_PANEL;
  job.value_panels = (job.value_size + AT_PANEL - 1) / AT_PANEL;
  size_t block = 65536 / (job.key_panels * AT_PANEL + 1) / MOST_2 * MOST_2;  // rows of scores of 256 kB
  if (block > MOST_ROWS / MOST_2 * MOST_2) block = MOST_ROWS / MOST_2 * MOST_2;
  job.block = block < MOST_2 ? MOST_2 : block;
  return job;
}

static size_t attention_need(const at_call* call) {
  const attention_job job = attention_of(call);
  const size_t keys = job.key_panels * AT_PANEL, values = job.value_panels * AT_PANEL;
  return (keys * job.size + job.keys * values + job.block * keys) * sizeof(float) + AT_LINE;
}

INLINE float largest_of(const float* row, size_t count) {
  vf most = vset(-INFINITY);
  size_t i = 0;
  for (; i + VL <= count; i += VL) {
    const vf x = vload(row + i);
    most = vselect(most != most, most, vfloor_at(x, most));
  }
  float found = -INFINITY;
  for (int lane = 0; lane < VL; ++lane) found = most[lane] > found || most[lane] != most[lane] ? most[lane] : found;
  for (; i < count; ++i) found = row[i] > found || row[i] != row[i] ? row[i] : found;
  return found;
}

// One row of scores becomes one row of shares that still have to be divided by their sum, which is given; what is
// masked everywhere has none.
static float shares(const attention_job* job, float* row, size_t n, size_t h, size_t query) {
  const at_call* call = job->call;
  const float scale = (float)at_number(call->words[AT_ATTENTION_SCALE]);
  const int has_mask = call->present >> 3 & 1;
  const at_view* mask = &call->src[3];
  const size_t whole = job->key_panels * AT_PANEL;
  size_t keys = job->keys;
  if (call->words[AT_ATTENTION_CAUSAL] && query + 1 < keys) keys = query + 1;
  if (has_mask) {
    const float* at = (const float*)(const void*)mask->data + (int64_t)n * mask->stride[0] +
                      (int64_t)h * mask->stride[1] + (int64_t)query * mask->stride[2];
    const int64_t step = mask->stride[3];
    for (size_t i = 0; i < keys; ++i) row[i] = row[i] * scale + at[(int64_t)i * step];
  } else {
    for (size_t i = 0; i < keys; ++i) row[i] *= scale;
  }
  for (size_t i = keys; i < whole; ++i) row[i] = -INFINITY;
  const float largest = largest_of(row, keys);
  if (largest == -INFINITY) {
    memset(row, 0, whole * sizeof(float));
    return 1.0f;
  }
  vf sums = vset(0.0f);
  for (size_t i = 0; i < whole; i += VL) {
    const vf e = vexp_down(vload(row + i) - vset(largest));
    vstore(row + i, e);
    sums += e;
  }
  float total = 0;
  for (int lane = 0; lane < VL; ++lane) total += sums[lane];
  return total;
}

static void attention_item(void* argument, size_t item, unsigned thread) {
  const attention_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *q = &call->src[0], *k = &call->src[1], *v = &call->src[2];
  const size_t head = item / job->chunks, n = head / job->heads, h = head % job->heads;
  const size_t width = job->key_panels * AT_PANEL, deep = job->value_panels * AT_PANEL;
  float* keys = (float*)(void*)(call->scratch + thread * call->scratch_bytes);
  float* values = keys + width * job->size;
  float* scores = values + job->keys * deep;
#define HEAD(VIEW) \
  ((VIEW)->data + ((int64_t)n * (VIEW)->stride[0] + (int64_t)h * (VIEW)->stride[1]) * (int64_t)sizeof(float))
  for (size_t i = 0; i < job->key_panels; ++i) {
    pack_panel((const float*)(const void*)HEAD(k), k->stride[3], k->stride[2], job->size, i * AT_PANEL, job->keys,
               keys + i * AT_PANEL * job->size);
  }
  for (size_t i = 0; i < job->value_panels; ++i) {
    pack_panel((const float*)(const void*)HEAD(v), v->stride[2], v->stride[3], job->keys, i * AT_PANEL, job->value_size,
               values + i * AT_PANEL * job->keys);
  }
  const size_t begin = item % job->chunks * job->chunk;
  const size_t end = begin + job->chunk < job->length ? begin + job->chunk : job->length;
  for (size_t first = begin; first < end; first += job->block) {
    const size_t count = end - first < job->block ? end - first : job->block;
    float* out = (float*)(void*)HEAD(dst) + (int64_t)first * dst->stride[2];
    product p = {.a = {.first = (float*)(void*)HEAD(q) + (int64_t)first * q->stride[2], .step = q->stride[2]},
                 .taps = 1,
                 .depth = job->size,
                 .weight = keys,
                 .out = {.first = scores, .step = (int64_t)width},
                 .columns = width,
                 .act = {AT_ACT_NONE, -INFINITY, INFINITY}};
    multiply_block(&p, count, 0, job->key_panels);
    float total[MOST_ROWS];
    for (size_t i = 0; i < count; ++i) total[i] = shares(job, scores + i * width, n, h, first + i);
    p.a = p.out;
    p.depth = job->keys;
    p.weight = values;
    p.out = (rows){.first = out, .step = dst->stride[2]};
    p.columns = job->value_size;
    multiply_block(&p, count, 0, job->value_panels);
    for (size_t i = 0; i < count; ++i) {
      const float factor = 1.0f / total[i];
      float* row = out + (int64_t)i * dst->stride[2];
      for (size_t c = 0; c < job->value_size; ++c) row[c] *= factor;
    }
  }
#undef HEAD
}

static int attention(const at_call* call) {
  if (at_elements(&call->dst) == 0) return 0;
  attention_job job = attention_of(call);
  const size_t heads = job.heads * (size_t)call->src[0].dim[0], threads = at_pool_threads(call->pool);
  job.chunk = job.length;
  if (heads < 2 * threads && threads > 1) {
    job.chunk = (job.length + threads - 1) / threads;
    job.chunk = (job.chunk + job.block - 1) / job.block * job.block;
  }
  job.chunks = (job.length + job.chunk - 1) / job.chunk;
  at_pool_run(call->pool, heads * job.chunks, attention_item, &job);
  return 0;
}
