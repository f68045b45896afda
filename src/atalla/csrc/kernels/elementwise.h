// EW: a chain of steps over blocks of elements that stay in the first-level cache.
//
// Sources that lie densely are read where they are, and short rows are put together.
#pragma once

#include "elementwise_block.h"

enum {
  SHORT_ROW = 64,  // elements, at most, of rows that cost more than they compute
  LONG_ROW = 512   // elements that they are put together to
};

// A piece of one row: whole vectors of dense floats are read and written where they are.
static void ew_piece(ew_job* job, const walk* w, char* const* at, size_t count, ew_values* values) {
  const void* rows[MOST_VALUES];
  for (unsigned v = 0; v < job->sources; ++v) {
    const int is_dense = w->stride[v + 1][w->rank - 1] == 1, is_floats = w->dtype[v + 1] == AT_F32 && count % VL == 0;
    const int in_place = is_dense && (is_floats || w->dtype[v + 1] == AT_I64);
    rows[v] = in_place ? (const void*)at[v + 1] : ew_floats(job, values, v);
    if (!in_place) ew_load(job, w, v, at[v + 1], 0, count, values);
  }
  const int direct = w->dtype[0] == AT_F32 && w->stride[0][w->rank - 1] == 1 && count % VL == 0 && job->count > 0;
  ew_steps(job, values, rows, direct ? (float*)(void*)at[0] : NULL, count);
  if (!direct) ew_store(job, w, at[0], rows[job->sources + job->count - 1], 0, count);
}

// The most rows up to `most` that are whole vectors together; 0 if none are.
INLINE size_t ew_whole_rows(size_t length, size_t most) {
  while (most && most * length % VL) --most;
  return most;
}

// Several rows fill a block. What lies densely over the rows is taken in place, what is the same in all is read once.
static void ew_short_rows(ew_job* job, size_t first, size_t last, ew_values* values) {
  const walk* w = &job->spread.walk;
  const size_t length = job->spread.length, most = job->block / length, whole = ew_whole_rows(length, most);
  const size_t together = whole ? whole : most;
  const void* rows[MOST_VALUES];
  char* out[MOST_BLOCK];
  int in_place[WALKERS], fixed[WALKERS];
  for (unsigned v = 0; v < w->views; ++v) {
    in_place[v] = w->dtype[v] == AT_F32 && walk_is_dense(w, v);
    fixed[v] = walk_is_fixed(w, v);
  }
  row_of_walk row = walk_to(w, first);
  for (size_t done = first; done < last; done += together) {
    const size_t here = last - done < together ? last - done : together;
    const int fills = here * length % VL == 0;
    int is_read[AT_SOURCES];
    for (unsigned v = 0; v < job->sources; ++v) {
      is_read[v] = !(fills && in_place[v + 1]);
      rows[v] = is_read[v] ? (const void*)ew_floats(job, values, v) : row.at[v + 1];
      if (fixed[v + 1] && done > first) is_read[v] = 0;
    }
    for (size_t i = 0; i < here; ++i, walk_on(w, &row)) {
      out[i] = row.at[0];
      for (unsigned v = 0; v < job->sources; ++v) {
        if (is_read[v]) ew_load(job, w, v, row.at[v + 1], i * length, length, values);
      }
    }
    const int direct = fills && in_place[0];
    ew_steps(job, values, rows, direct ? (float*)(void*)out[0] : NULL, here * length);
    const void* made = rows[job->sources + job->count - 1];
    for (size_t i = 0; i < here && !direct; ++i) ew_store(job, w, out[i], made, i * length, length);
  }
}

// Whether the chain is one step of dense floats, which needs no block: a row is read and written where it is.
static int ew_is_bare(const ew_job* job) {
  const walk* w = &job->spread.walk;
  if (job->count != 1 || !job->steps[0].as_float || !at_step_spec_of(job->steps[0].code)->operands[0]) return 0;
  for (unsigned v = 0; v < w->views; ++v) {
    if (w->dtype[v] != AT_F32 || w->stride[v][w->rank - 1] != 1) return 0;
  }
  return 1;
}

// The step of a bare chain for what is left of a row, less than a vector.
static void ew_rest(const ew_step* only, unsigned views, float* const* rows, size_t from, size_t count) {
  float rest[WALKERS][VL];
  const float* sources[WALKERS];
  for (unsigned v = 1; v < views; ++v) {
    vstore(rest[v], vload_part(rows[v] + from, count));
    sources[v] = rest[v];
  }
  step_floats(only, rest[0], sources[only->a + 1], sources[only->b + 1], count);
  vstore_part(rows[0] + from, vload(rest[0]), count);
}

// How many rows are taken as one long row of whole vectors: they lie one behind the other, or are the same one.
static size_t ew_together(const spread* s) {
  const walk* w = &s->walk;
  if (w->rank != 2 || s->pieces != 1) return 1;
  for (unsigned v = 0; v < w->views; ++v) {
    if (w->stride[v][0] != (int64_t)s->length && (v == 0 || w->stride[v][0] != 0)) return 1;
  }
  const size_t together = ew_whole_rows(s->length, LONG_ROW / s->length);
  return together > 1 ? together : 1;
}

// A bare chain's rows, whole or a piece of each.
static void ew_bare(const ew_job* job, size_t row, size_t last, size_t begin, size_t count) {
  const walk* w = &job->spread.walk;
  const ew_step* only = &job->steps[0];
  const size_t together = ew_together(&job->spread);
  float repeated[WALKERS][LONG_ROW];
  for (unsigned v = 1; v < w->views && together > 1; ++v) {
    if (w->stride[v][0]) continue;
    for (size_t i = 0; i < together; ++i) memcpy(repeated[v] + i * count, w->data[v], count * sizeof(float));
  }
  while (row < last) {
    const size_t here = last - row < together ? 1 : together, all = here * count, done = all / VL * VL;
    char* at[WALKERS];
    float* rows[WALKERS];
    walk_row(w, row, at);
    for (unsigned v = 0; v < w->views; ++v) {
      rows[v] = here > 1 && v && !w->stride[v][0] ? repeated[v] : (float*)(void*)at[v] + begin;
    }
    step_floats(only, rows[0], rows[only->a + 1], rows[only->b + 1], done);
    if (done < all) ew_rest(only, w->views, rows, done, all - done);
    row += here;
  }
}

static void ew_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  ew_job* job = argument;
  const spread* s = &job->spread;
  const walk* w = &s->walk;
  const size_t from = item / s->pieces * s->rows_each, begin = item % s->pieces * s->length_each;
  const size_t count = s->length - begin < s->length_each ? s->length - begin : s->length_each;
  const size_t last = from + s->rows_each < s->rows ? from + s->rows_each : s->rows;
  if (job->is_pair) {
    for (size_t row = from; row < last; ++row) {
      char* at[WALKERS];
      walk_row(w, row, at);
      pair_row(&job->pair, (const int8_t*)at[1] + begin, (const int8_t*)at[2] + begin, (int8_t*)at[0] + begin, count);
    }
    return;
  }
  const int is_short = s->length <= job->block / 2 && w->rank > 1 && job->count;
  if (ew_is_bare(job) && (s->length > SHORT_ROW || ew_together(s) > 1)) {
    ew_bare(job, from, last, begin, count);
    return;
  }
  ew_values values;
  ew_constants(job, &values);
  if (is_short) {
    ew_short_rows(job, from, last, &values);
    return;
  }
  for (size_t row = from; row < last; ++row) {
    char* at[WALKERS];
    walk_row(w, row, at);
    size_t done = 0;
    while (done < count) {
      // Whole vectors first: a block that ends within a vector is copied.
      size_t block = count - done < job->block ? count - done : job->block;
      if (block > VL) block = block / VL * VL;
      char* here[WALKERS];
      for (unsigned v = 0; v < w->views; ++v) {
        here[v] = at[v] + (int64_t)(begin + done) * w->stride[v][w->rank - 1] * (int64_t)w->size[v];
      }
      ew_piece(job, w, here, block, &values);
      done += block;
    }
  }
}

// A source of int8 that no step reads but to dequantise it, and a result that a step quantises.
static void find_narrow(ew_job* job, const at_call* call) {
  for (unsigned v = 0; v < job->sources; ++v) job->narrow[v] = call->src[v].dtype == AT_I8 && job->count;
  for (unsigned i = 0; i < job->count; ++i) {
    const ew_step* s = &job->steps[i];
    const uint8_t operands[] = {s->a, s->b, s->c};
    const char* kinds = at_step_spec_of(s->code)->operands;
    for (unsigned k = s->code == AT_STEP_DEQUANTIZE; kinds[k]; ++k) {
      if (operands[k] < job->sources) job->narrow[operands[k]] = 0;
    }
  }
  job->is_narrow = call->dst.dtype == AT_I8 && job->count && job->steps[job->count - 1].code == AT_STEP_QUANTIZE;
}

// The constant that a value is; 0 where it is none.
INLINE int is_constant(const ew_job* job, unsigned value, float* constant) {
  if (value < job->sources || job->steps[value - job->sources].code != AT_STEP_FLOAT) return 0;
  memcpy(constant, &job->steps[value - job->sources].constant, sizeof *constant);
  return 1;
}

// Whether a value is a source, dequantised by constants.
INLINE int is_dequantised(const ew_job* job, unsigned value, unsigned source, int8_pair* pair) {
  if (value < job->sources) return 0;
  const ew_step* s = &job->steps[value - job->sources];
  return s->code == AT_STEP_DEQUANTIZE && s->a == source && is_constant(job, s->b, &pair->scale[source]) &&
         is_constant(job, s->c, &pair->zero[source]);
}

// Whether the chain is a pair, read backwards from its result, of views whose rows are dense.
static int find_pair(ew_job* job) {
  const walk* w = &job->spread.walk;
  int8_pair* pair = &job->pair;
  if (!job->is_narrow || job->sources != 2 || !job->narrow[0] || !job->narrow[1]) return 0;
  for (unsigned v = 0; v < w->views; ++v) {
    if (w->stride[v][w->rank - 1] != 1) return 0;
  }
  const ew_step* end = &job->steps[job->count - 1];
  if (!is_constant(job, end->b, &pair->factor) || !is_constant(job, end->c, &pair->to_zero)) return 0;
  if (end->a < job->sources) return 0;
  const ew_step* s = &job->steps[end->a - job->sources];
  pair->has_relu = s->code == AT_STEP_RELU;
  if (pair->has_relu && s->a < job->sources) return 0;
  if (pair->has_relu) s = &job->steps[s->a - job->sources];
  pair->is_product = s->code == AT_STEP_MUL;
  if (s->code != AT_STEP_ADD && s->code != AT_STEP_MUL) return 0;
  // Sums and products are the same whichever comes first.
  return (is_dequantised(job, s->a, 0, pair) && is_dequantised(job, s->b, 1, pair)) ||
         (is_dequantised(job, s->a, 1, pair) && is_dequantised(job, s->b, 0, pair));
}

// A few elements in each row, as channels are that were images of their own: along the other dim there are more.
INLINE void turn_short_rows(walk* w) {
  enum { SHORT = 4 };
  if (w->rank < 2 || w->dim[w->rank - 1] > SHORT) return;
  const unsigned last = w->rank - 1;
  for (unsigned v = 1; v < w->views; ++v) {
    if (w->stride[v][last - 1] != 1) return;
  }
  for (unsigned v = 0; v < w->views; ++v) {
    const int64_t stride = w->stride[v][last];
    w->stride[v][last] = w->stride[v][last - 1];
    w->stride[v][last - 1] = stride;
  }
  const int64_t extent = w->dim[last];
  w->dim[last] = w->dim[last - 1];
  w->dim[last - 1] = extent;
}

static int elementwise(const at_call* call) {
  if (at_elements(&call->dst) == 0) return 0;
  const at_view* views[WALKERS] = {&call->dst};
  for (unsigned i = 0; i < call->sources; ++i) views[i + 1] = &call->src[i];
  walk w = walk_of(views, call->sources + 1);
  turn_short_rows(&w);
  ew_job job = {.spread = spread_of(call, &w),
                .count = call->word_count,
                .sources = call->sources,
                .block = block_of_values(call->sources + call->word_count)};
  uint8_t floats[MOST_VALUES];
  for (unsigned i = 0; i < call->sources; ++i) floats[i] = (uint8_t)is_float(call->src[i].dtype);
  for (unsigned i = 0; i < job.count; ++i) {
    ew_step s = read_step(call->words[i]);
    const int is_constant = !at_step_spec_of(s.code)->operands[0];
    s.from_float = !is_constant && floats[s.a];
    if (is_constant) s.a = s.b = s.c = 0;
    s.as_float = (uint8_t)at_step_is_float(s.code, s.from_float, floats[s.b]);
    // A step of one operand reads that twice: the other number is 0, and what it means may be shorter.
    const int is_mixed = s.code == AT_STEP_WHERE || s.code == AT_STEP_DEQUANTIZE;
    if (!is_constant && !is_mixed && floats[s.a] != floats[s.b]) s.b = s.a;
    floats[job.sources + i] = s.as_float;
    job.steps[i] = s;
  }
  find_narrow(&job, call);
  job.is_pair = (uint8_t)find_pair(&job);
  at_pool_run(call->pool, job.spread.items, ew_item, &job);
  return atomic_load_explicit(&job.status, memory_order_relaxed);
}
