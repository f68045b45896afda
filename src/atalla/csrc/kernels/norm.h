// SOFTMAX, NORM.
#pragma once

#include "elementary.h"
#include "fold.h"

// Neighbours of a row, whole vectors of them or what is left; behind that nothing that counts.
INLINE vf softmax_load(const float* at, int64_t step, size_t count) {
  vf found = vset(-INFINITY);
  if (step == 1) return count < VL ? vload_or(at, count, found) : vload(at);
  for (size_t lane = 0; lane < VL && lane < count; ++lane) found[lane] = at[(int64_t)lane * step];
  return found;
}

INLINE void softmax_store(float* at, int64_t step, size_t count, vf x) {
  if (step == 1 && count >= VL) {
    vstore(at, x);
  } else if (step == 1) {
    vstore_part(at, x, count);
  } else {
    for (size_t lane = 0; lane < VL && lane < count; ++lane) at[(int64_t)lane * step] = x[lane];
  }
}

// NaN is no largest number, but makes all exponentials' sum NaN.
INLINE void softmax_row(const at_call* call, const float* in, int64_t from, float* out, int64_t to, size_t count) {
  vf most = vset(-INFINITY), sums = vset(0.0f);
  for (size_t i = 0; i < count; i += VL) {
    most = vfloor_at(most, softmax_load(in + (int64_t)i * from, from, count - i));
  }
  const float largest = vlargest(most);
  for (size_t i = 0; i < count; i += VL) {
    const vf e = vexp_down(softmax_load(in + (int64_t)i * from, from, count - i) - vset(largest));
    softmax_store(out + (int64_t)i * to, to, count - i, e);
    sums += e;
  }
  const float total = vtotal(sums);
  if (call->words[AT_SOFTMAX_LOG]) {
    const float rest = logf(total);
    for (size_t i = 0; i < count; ++i) out[(int64_t)i * to] = (in[(int64_t)i * from] - largest) - rest;
  } else {
    const float scale = 1.0f / total;
    for (size_t i = 0; i < count; ++i) out[(int64_t)i * to] *= scale;
  }
}

static void softmax_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const fold* f = argument;
  const at_call* call = f->call;
  const size_t last = (item + 1) * f->each < f->items ? (item + 1) * f->each : f->items;
  for (size_t at = item * f->each; at < last; ++at) {
    int64_t src, dst;
    fold_at(f, at, &src, &dst);
    const float* in = (const float*)(const void*)call->src[0].data + src;
    float* out = (float*)(void*)call->dst.data + dst;
    if (f->gone_src[0] == 1 && f->gone_dst[0] == 1) {
      softmax_row(call, in, 1, out, 1, f->length);
    } else {
      softmax_row(call, in, f->gone_src[0], out, f->gone_dst[0], f->length);
    }
  }
}

static int softmax(const at_call* call) {
  fold f = fold_of(call, 1ull << call->words[AT_SOFTMAX_AXIS]);
  if (f.items == 0 || f.length == 0) return 0;
  run_fold(&f, softmax_item, WORTH_AN_ITEM / 4);
  return 0;
}

static void norm_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const fold* f = argument;
  const at_call* call = f->call;
  const float* weight = call->present >> 1 & 1 ? (const float*)(const void*)call->src[1].data : NULL;
  const float* bias = call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL;
  const size_t rows = fold_rows(f), last = (item + 1) * f->each < f->items ? (item + 1) * f->each : f->items;
  const float count = (float)(rows * f->length), eps = (float)at_number(call->words[AT_NORM_EPS]);
  for (size_t at = item * f->each; at < last; ++at) {
    int64_t src, dst;
    fold_at(f, at, &src, &dst);
    const float* in = (const float*)(const void*)call->src[0].data + src;
    float* out = (float*)(void*)call->dst.data + dst;
    const float mean = call->words[AT_NORM_KIND] == AT_NORM_RMS ? 0.0f : fold_sum(f, in) / count;
    const float scale = 1.0f / sqrtf(fold_squares(f, in, mean) / count + eps);
    for (size_t row = 0; row < rows; ++row) {
      const float* x = in + fold_row(f, row, f->gone_src);
      float* y = out + fold_row(f, row, f->gone_dst);
      const int64_t from = f->gone_src[f->gone - 1], to = f->gone_dst[f->gone - 1];
      const size_t place = row * f->length;
      size_t i = 0;
      if (from == 1 && to == 1) {
        for (; i + VL <= f->length; i += VL) {
          vf z = (vload(x + i) - vset(mean)) * vset(scale);
          if (weight) z *= vload(weight + place + i);
          if (bias) z += vload(bias + place + i);
          vstore(y + i, z);
        }
      }
      for (; i < f->length; ++i) {
        float z = (x[(int64_t)i * from] - mean) * scale;
        if (weight) z *= weight[place + i];
        if (bias) z += bias[place + i];
        y[(int64_t)i * to] = z;
      }
    }
  }
}

static int norm(const at_call* call) {
  const unsigned rank = call->src[0].rank, dims = (unsigned)call->words[AT_NORM_DIMS];
  fold f = fold_of(call, ((1ull << dims) - 1) << (rank - dims));
  if (f.items == 0) return 0;
  run_fold(&f, norm_item, WORTH_AN_ITEM);
  return 0;
}
