// BMM and ATTENTION: products of two matrices that are known only at run time; the second is packed on the way.
#pragma once

#include "product.h"

// K × PANEL floats of b[k][n], from column `first`, zeros beyond `columns`.
static void pack_panel(const float* b, int64_t k_stride, int64_t n_stride, size_t depth, size_t first, size_t columns,
                       float* into) {
  const size_t count = columns - first < AT_PANEL ? columns - first : AT_PANEL;
  const float* at = b + (int64_t)first * n_stride;
  if (count < AT_PANEL) memset(into, 0, depth * AT_PANEL * sizeof(float));
  if (n_stride == 1) {
    for (size_t k = 0; k < depth; ++k) memcpy(into + k * AT_PANEL, at + (int64_t)k * k_stride, count * sizeof(float));
  } else {
    for (size_t n = 0; n < count; ++n) {
      for (size_t k = 0; k < depth; ++k) into[k * AT_PANEL + n] = at[(int64_t)k * k_stride + (int64_t)n * n_stride];
    }
  }
}

typedef struct {
  const at_call* call;
  size_t rows, depth, columns, block, blocks;
} bmm_job;

static size_t bmm_need(const at_call* call) {
  const at_view* a = &call->src[0];
  return (size_t)a->dim[a->rank - 1] * (AT_PANEL + MOST_ROWS) * sizeof(float);
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

static void bmm_item(void* argument, size_t item, unsigned thread) {
  const bmm_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *a = &call->src[0], *b = &call->src[1];
  const size_t batch = item / job->blocks, first = item % job->blocks * job->block;
  const size_t rows = job->rows - first < job->block ? job->rows - first : job->block;
  float* packed = (float*)(void*)(call->scratch + thread * call->scratch_bytes);
  float* dense = packed + job->depth * AT_PANEL;
  const float* left = (const float*)(const void*)a->data + batch_offset(a, batch);
  const float* right = (const float*)(const void*)b->data + batch_offset(b, batch);
  float* result = (float*)(void*)dst->data + batch_offset(dst, batch);
  const int64_t step = a->stride[a->rank - 1], down = a->stride[a->rank - 2];
  const float* row[MOST_ROWS];
  float* out[MOST_ROWS];
  for (size_t i = 0; i < rows; ++i) {
    const float* at = left + (int64_t)(first + i) * down;
    if (step != 1) {
      for (size_t k = 0; k < job->depth; ++k) dense[i * job->depth + k] = at[(int64_t)k * step];
      at = dense + i * job->depth;
    }
    row[i] = at;
    out[i] = result + (int64_t)(first + i) * dst->stride[dst->rank - 2];
  }
  const float scale = (float)at_number(call->words[AT_BMM_SCALE]);
  product p = {.a = row, .taps = 1, .depth = job->depth, .out = out, .act = {AT_ACT_NONE, -INFINITY, INFINITY}};
  for (size_t column = 0; column < job->columns; column += AT_PANEL) {
    pack_panel(right, b->stride[b->rank - 2], b->stride[b->rank - 1], job->depth, column, job->columns, packed);
    p.weight = packed - column * job->depth;  // a panel finds itself by its column
    p.columns = job->columns;
    multiply_block(&p, rows, column / AT_PANEL, column / AT_PANEL + 1);
    if (scale == 1.0f) continue;
    const size_t count = job->columns - column < AT_PANEL ? job->columns - column : AT_PANEL;
    for (size_t i = 0; i < rows; ++i) {
      for (size_t n = 0; n < count; ++n) out[i][column + n] *= scale;
    }
  }
}

static int bmm(const at_call* call) {
  const at_view *dst = &call->dst, *a = &call->src[0];
  const size_t elements = at_elements(dst);
  if (!elements) return 0;
  bmm_job job = {.call = call, .depth = (size_t)a->dim[a->rank - 1]};
  job.rows = (size_t)dst->dim[dst->rank - 2];
  job.columns = (size_t)dst->dim[dst->rank - 1];
  job.block = MOST_ROWS / MR * MR;
  job.blocks = (job.rows + job.block - 1) / job.block;
  at_pool_run(call->pool, elements / job.rows / job.columns * job.blocks, bmm_item, &job);
  return 0;
}

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
  size_t block = 65536 / (job.key_panels * AT_PANEL + 1) / MR * MR;  // rows of scores of 256 kB
  if (block > MOST_ROWS / MR * MR) block = MOST_ROWS / MR * MR;
  job.block = block < MR ? MR : block;
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
    const size_t rows = end - first < job->block ? end - first : job->block;
    const float *query[MOST_ROWS], *share[MOST_ROWS];
    float *score[MOST_ROWS], *out[MOST_ROWS];
    for (size_t i = 0; i < rows; ++i) {
      query[i] = (const float*)(const void*)HEAD(q) + (int64_t)(first + i) * q->stride[2];
      share[i] = score[i] = scores + i * width;
      out[i] = (float*)(void*)HEAD(dst) + (int64_t)(first + i) * dst->stride[2];
    }
    product p = {.a = query,
                 .taps = 1,
                 .depth = job->size,
                 .weight = keys,
                 .out = score,
                 .columns = width,
                 .act = {AT_ACT_NONE, -INFINITY, INFINITY}};
    multiply_block(&p, rows, 0, job->key_panels);
    float total[MOST_ROWS];
    for (size_t i = 0; i < rows; ++i) total[i] = shares(job, score[i], n, h, first + i);
    p.a = share;
    p.depth = job->keys;
    p.weight = values;
    p.out = out;
    p.columns = job->value_size;
    multiply_block(&p, rows, 0, job->value_panels);
    for (size_t i = 0; i < rows; ++i) {
      const float factor = 1.0f / total[i];
      for (size_t c = 0; c < job->value_size; ++c) out[i][c] *= factor;
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
