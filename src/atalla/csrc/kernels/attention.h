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

// What becomes scores of shares, the same for all queries of a head.
typedef struct {
  float scale;        // of scores, before the mask is added
  int waits;          // whether they are scaled when they are read again
  const float* mask;  // of the head, or NULL
  int64_t mask_down, mask_step;
  size_t keys, whole;  // of a row: those that are there, and with what fills its last panel
  int is_causal;
} sharing;

INLINE size_t keys_of(const sharing* s, size_t query) {
  return s->is_causal && query + 1 < s->keys ? query + 1 : s->keys;
}

INLINE vf scaled(const sharing* s, const float* row, const float* mask, size_t i, size_t count) {
  if (!mask) return vload(row + i) * vset(s->scale);
  vf added = vset(0.0f);
  if (s->mask_step == 1) {
    added = vload_part(mask + i, count);
  } else {
    for (size_t lane = 0; lane < count; ++lane) added[lane] = mask[(int64_t)(i + lane) * s->mask_step];
  }
  return vload(row + i) * vset(s->scale) + added;  // nothing between the product and the sum: always rounded once
}

// The largest of each lane of a row of scores, NaN left aside, where scaling waits: it keeps their order.
static vf largest_of_row(float* row, size_t keys) {
  vf most = vset(-INFINITY);
  size_t i = 0;
  for (; i + VL <= keys; i += VL) most = vfloor_at(most, vload(row + i));
  if (i < keys) {
    const vf x = vload_or(row + i, keys - i, vset(-INFINITY));
    vstore(row + i, x);
    most = vfloor_at(most, x);
  }
  return most;
}

// Scales a row of scores and adds its mask; gives the largest of each lane, NaN left aside.
static vf scale_row(const sharing* s, float* row, size_t query) {
  const size_t keys = keys_of(s, query);
  if (s->waits) return largest_of_row(row, keys);
  const float* mask = s->mask ? s->mask + (int64_t)query * s->mask_down : NULL;
  vf most = vset(-INFINITY);
  size_t i = 0;
  for (; i + VL <= keys; i += VL) {
    const vf x = scaled(s, row, mask, i, VL);
    vstore(row + i, x);
    most = vfloor_at(most, x);
  }
  if (i < keys) {
    vf x = scaled(s, row, mask, i, keys - i);
    for (int lane = (int)(keys - i); lane < VL; ++lane) x[lane] = -INFINITY;
    vstore(row + i, x);
    most = vfloor_at(most, x);
  }
  return most;
}

INLINE float largest_or_nan(const float* row, size_t keys, float largest) {
  for (size_t i = 0; i < keys && largest == -INFINITY; ++i) largest = row[i] != row[i] ? row[i] : largest;
  return largest;
}

// Shares that still have to be divided by their sum, whose lanes are given; what is masked everywhere has none.
static vf share_row(const sharing* s, float* row, size_t query, float largest) {
  const size_t keys = keys_of(s, query);
  const float later = 1.44269504f * (s->waits ? s->scale : 1.0f);  // e^x is 2^(x · log2(e))
  largest = largest_or_nan(row, keys, largest);
  const size_t end = largest == -INFINITY ? 0 : (keys + VL - 1) / VL * VL;
  enum { TOGETHER = 2 };
  vf sums = vset(0.0f), others = vset(0.0f);
  size_t i = 0;
  for (; i + TOGETHER * VL <= end; i += TOGETHER * VL) {
    vf e[TOGETHER];
    UNROLL for (int j = 0; j < TOGETHER; ++j) e[j] = (vload(row + i + j * VL) - vset(largest)) * vset(later);
    UNROLL for (int j = 0; j < TOGETHER; ++j) e[j] = vexp2_down(e[j]);
    UNROLL for (int j = 0; j < TOGETHER; ++j) vstore(row + i + j * VL, e[j]);
    sums += e[0];
    others += e[1];
  }
  for (; i < end; i += VL) {
    const vf e = vexp2_down((vload(row + i) - vset(largest)) * vset(later));
    vstore(row + i, e);
    sums += e;
  }
  memset(row + end, 0, (s->whole - end) * sizeof(float));
  if (!end) sums[0] = 1.0f;
  return sums + others;
}

// Rows of scores become rows of shares, VL of them together: what goes along lanes goes along rows then.
static void shares(const sharing* s, float* scores, size_t query, size_t rows, float* total) {
  for (size_t first = 0; first < rows; first += VL, query += VL) {
    const size_t count = rows - first < VL ? rows - first : VL;
    vf x[VL];
    for (size_t i = 0; i < VL; ++i) x[i] = vset(0.0f);
    for (size_t i = 0; i < count; ++i) x[i] = scale_row(s, scores + (first + i) * s->whole, query + i);
    vtranspose(x);
    vf largest = x[0];
    for (size_t i = 1; i < VL; ++i) largest = vfloor_at(largest, x[i]);
    for (size_t i = 0; i < VL; ++i) x[i] = vset(0.0f);
    for (size_t i = 0; i < count; ++i) {
      x[i] = share_row(s, scores + (first + i) * s->whole, query + i, largest[i]);
    }
    vtranspose(x);
    vf sum = vset(0.0f);
    for (size_t i = 0; i < VL; ++i) sum += x[i];
    vstore_part(total + first, sum, count);
  }
}

INLINE sharing sharing_of(const attention_job* job, size_t n, size_t h) {
  const at_call* call = job->call;
  const at_view* mask = &call->src[3];
  sharing found = {.scale = (float)at_number(call->words[AT_ATTENTION_SCALE]),
                   .keys = job->keys,
                   .whole = job->key_panels * AT_PANEL,
                   .is_causal = call->words[AT_ATTENTION_CAUSAL] != 0};
  if (call->present >> 3 & 1) {
    found.mask = (const float*)(const void*)mask->data + (int64_t)n * mask->stride[0] + (int64_t)h * mask->stride[1];
    found.mask_down = mask->stride[2];
    found.mask_step = mask->stride[3];
  }
  found.waits = !found.mask && found.scale > 0.0f;
  return found;
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
  const sharing sharing = sharing_of(job, n, h);
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
    const size_t seen = keys_of(&sharing, first + count - 1);
    multiply_block(&p, count, 0, (seen + AT_PANEL - 1) / AT_PANEL);
    float total[MOST_ROWS];
    shares(&sharing, scores, first, count, total);
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
