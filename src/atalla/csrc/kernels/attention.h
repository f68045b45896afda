// ATTENTION: shares of keys for each query, by products of matrices that are packed on the way.
#pragma once

#include "bmm.h"
#include "elementary.h"

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

// Scales a row of scores and adds its mask.
static void scale_row(const sharing* s, float* row, size_t query) {
  const size_t keys = keys_of(s, query);
  const float* mask = s->mask ? s->mask + (int64_t)query * s->mask_down : NULL;
  size_t i = 0;
  for (; i + VL <= keys; i += VL) vstore(row + i, scaled(s, row, mask, i, VL));
  if (i < keys) vstore_part(row + i, scaled(s, row, mask, i, keys - i), keys - i);
}

// The largest of a row from a key on, and of what each lane has found before it; NaN left aside.
INLINE float largest_of_row(vf most, const float* row, size_t i, size_t keys) {
  for (; i + VL <= keys; i += VL) most = vfloor_at(most, vload(row + i));
  if (i < keys) most = vfloor_at(most, vload_or(row + i, keys - i, vset(-INFINITY)));
  return vlargest(most);
}

INLINE float largest_or_nan(const float* row, size_t keys, float largest) {
  for (size_t i = 0; i < keys && largest == -INFINITY; ++i) largest = row[i] != row[i] ? row[i] : largest;
  return largest;
}

// Makes shares of the scores of a row whose largest is given; returns their sum, by which they still have to be
// divided. What is masked everywhere has none. Finds the largest of another row on the way: that waits for nothing
// else.
static __attribute__((noinline)) float share_row(const sharing* s, float* row, size_t query, float* largest,
                                                 const float* next) {
  const size_t keys = keys_of(s, query), next_keys = keys_of(s, query + 1);
  const float later = 1.44269504f * (s->waits ? s->scale : 1.0f);  // e^x is 2^(x · log2(e))
  const float most = largest_or_nan(row, keys, *largest);
  enum { MANY = VL == 8 ? MOST_TOGETHER : 2 };
  vf found = vset(-INFINITY), sums[2] = {vset(0.0f), vset(0.0f)};
  size_t i = 0;
  if (most == -INFINITY) {
    memset(row, 0, s->whole * sizeof(float));
    *largest = largest_of_row(found, next, 0, next_keys);
    return 1.0f;
  }
  for (; i + MANY * VL <= keys; i += MANY * VL) {
    vf e[MANY];
    UNROLL for (int j = 0; j < MANY; ++j) e[j] = (vload(row + i + j * VL) - vset(most)) * vset(later);
    UNROLL for (int j = 0; j < MANY; ++j) found = vfloor_at(found, vload(next + i + j * VL));
    vexp2_down_all(e, MANY);
    UNROLL for (int j = 0; j < MANY; ++j) vstore(row + i + j * VL, e[j]);
    UNROLL for (int j = 0; j < MANY; ++j) sums[j % 2] += e[j];
  }
  *largest = largest_of_row(found, next, i, next_keys);
  for (; i < keys; i += VL) {
    const vf x = keys - i < VL ? vload_or(row + i, keys - i, vset(-INFINITY)) : vload(row + i);
    vf e = (x - vset(most)) * vset(later);
    vexp2_down_all(&e, 1);
    vstore(row + i, e);
    sums[0] += e;
  }
  memset(row + i, 0, (s->whole - i) * sizeof(float));
  return vtotal(sums[0] + sums[1]);
}

// Rows of scores become rows of shares.
static void shares(const sharing* s, float* scores, size_t query, size_t rows, float* total) {
  if (!s->waits) scale_row(s, scores, query);
  float largest = largest_of_row(vset(-INFINITY), scores, 0, keys_of(s, query));
  for (size_t r = 0; r < rows; ++r, ++query) {
    float *row = scores + r * s->whole, *next = r + 1 < rows ? row + s->whole : row;
    if (!s->waits && next != row) scale_row(s, next, query + 1);
    total[r] = share_row(s, row, query, &largest, next);
  }
}

static void scale(float* row, size_t count, float factor) {
  size_t i = 0;
  for (; i + VL <= count; i += VL) vstore(row + i, vload(row + i) * vset(factor));
  if (i < count) vstore_part(row + i, vload_part(row + i, count - i) * vset(factor), count - i);
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
    for (size_t i = 0; i < count; ++i) scale(out + (int64_t)i * dst->stride[2], job->value_size, 1.0f / total[i]);
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
