// SOFTMAX, NORM.
#pragma once

#include "fold.h"

static void softmax_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const fold* f = argument;
  const at_call* call = f->call;
  const int64_t from = f->gone_src[0], to = f->gone_dst[0];
  const size_t count = f->length, last = (item + 1) * f->each < f->items ? (item + 1) * f->each : f->items;
  const int dense = from == 1 && to == 1;
  for (size_t at = item * f->each; at < last; ++at) {
    int64_t src, dst;
    fold_at(f, at, &src, &dst);
    const float* in = (const float*)(const void*)call->src[0].data + src;
    float* out = (float*)(void*)call->dst.data + dst;
    float largest = -INFINITY, total = 0;
    for (size_t i = 0; i < count; ++i) {
      const float x = in[(int64_t)i * from];
      largest = x > largest || x != x ? x : largest;
    }
    size_t i = 0;
    vf sums = vset(0.0f);
    for (; i < count; i += VL) {
      const size_t part = count - i < VL ? count - i : VL;
      vf x = vset(-INFINITY);
      if (dense && part == VL) {
        x = vload(in + i);
      } else {
        for (size_t lane = 0; lane < part; ++lane) x[lane] = in[(int64_t)(i + lane) * from];
      }
      const vf e = vexp_down(x - vset(largest));
      if (dense && part == VL) {
        vstore(out + i, e);
      } else {
        for (size_t lane = 0; lane < part; ++lane) out[(int64_t)(i + lane) * to] = e[lane];
      }
      if (part == VL) {
        sums += e;
      } else {
        for (size_t lane = 0; lane < part; ++lane) sums[lane] += e[lane];
      }
    }
    for (int lane = 0; lane < VL; ++lane) total += sums[lane];
    if (call->words[AT_SOFTMAX_LOG]) {
      const float shift = largest + logf(total);
      for (i = 0; i < count; ++i) out[(int64_t)i * to] = in[(int64_t)i * from] - shift;
    } else {
      const float scale = 1.0f / total;
      for (i = 0; i < count; ++i) out[(int64_t)i * to] *= scale;
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
