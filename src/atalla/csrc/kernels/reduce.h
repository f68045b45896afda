// REDUCE, CUMSUM.
#pragma once

#include "fold.h"
#include "int8_sum.h"
#include "median.h"

static void reduce_floats(const fold* f, const float* src, char* dst) {
  const at_call* call = f->call;
  const int64_t kind = call->words[AT_REDUCE_KIND];
  const size_t rows = fold_rows(f), count = rows * f->length;
  const int64_t step = f->gone_src[f->gone - 1];
  float found = 0;
  if (kind == AT_REDUCE_SUM || kind == AT_REDUCE_MEAN || kind == AT_REDUCE_VAR) {
    found = fold_sum(f, src);
    if (kind == AT_REDUCE_MEAN) found /= (float)count;
    if (kind == AT_REDUCE_VAR) {
      const double rest = (double)count - at_number(call->words[AT_REDUCE_CORRECTION]);
      found = fold_squares(f, src, found / (float)count) / (float)(rest > 0 ? rest : 0);
    }
    *(float*)(void*)dst = found;
    return;
  }
  int64_t place = 0, index = 0;
  int64_t truth = kind == AT_REDUCE_ALL;
  for (size_t row = 0; row < rows; ++row) {
    const float* at = src + fold_row(f, row, f->gone_src);
    for (size_t i = 0; i < f->length; ++i, ++index) {
      const float x = at[(int64_t)i * step];
      const int is_first = index == 0;
      if (kind == AT_REDUCE_PROD) found = is_first ? x : found * x;
      if (kind == AT_REDUCE_ALL) truth &= x != 0;
      if (kind == AT_REDUCE_ANY) truth |= x != 0;
      const int up = kind == AT_REDUCE_MAX || kind == AT_REDUCE_ARGMAX;
      const int down = kind == AT_REDUCE_MIN || kind == AT_REDUCE_ARGMIN;
      if ((up || down) && (is_first || (found == found && (x != x || (up ? x > found : x < found))))) {
        found = x;
        place = index;
      }
    }
  }
  if (kind == AT_REDUCE_ALL || kind == AT_REDUCE_ANY) {
    store_whole(dst, call->dst.dtype, truth);
  } else if (kind == AT_REDUCE_ARGMAX || kind == AT_REDUCE_ARGMIN) {
    store_whole(dst, call->dst.dtype, place);
  } else {
    *(float*)(void*)dst = found;
  }
}

static void reduce_wholes(const fold* f, const char* src, char* dst) {
  const at_call* call = f->call;
  const int64_t kind = call->words[AT_REDUCE_KIND];
  const size_t rows = fold_rows(f), size = at_size(call->src[0].dtype);
  const int64_t step = f->gone_src[f->gone - 1];
  int64_t found = kind == AT_REDUCE_ALL || kind == AT_REDUCE_PROD, place = 0, index = 0;
  for (size_t row = 0; row < rows; ++row) {
    const char* at = src + fold_row(f, row, f->gone_src) * (int64_t)size;
    for (size_t i = 0; i < f->length; ++i, ++index) {
      const int64_t x = load_whole(at + (int64_t)i * step * (int64_t)size, call->src[0].dtype);
      if (kind == AT_REDUCE_SUM) found = (int64_t)((uint64_t)found + (uint64_t)x);
      if (kind == AT_REDUCE_PROD) found = (int64_t)((uint64_t)found * (uint64_t)x);
      if (kind == AT_REDUCE_ALL) found &= x != 0;
      if (kind == AT_REDUCE_ANY) found |= x != 0;
      const int up = kind == AT_REDUCE_MAX || kind == AT_REDUCE_ARGMAX;
      const int down = kind == AT_REDUCE_MIN || kind == AT_REDUCE_ARGMIN;
      if ((up || down) && (index == 0 || (up ? x > found : x < found))) {
        found = x;
        place = index;
      }
    }
  }
  store_whole(dst, call->dst.dtype, kind == AT_REDUCE_ARGMAX || kind == AT_REDUCE_ARGMIN ? place : found);
}

enum { LANES = 4 };  // vectors of neighbours at once: sums of one wait for each other

// Sums of many neighbours at once, or of the squares of what they differ by from a mean: channels are innermost and
// kept, as in an image's mean. The last vector may be filled in part.
INLINE void lanes_sum(const int vectors, const int full, const fold* f, const float* src, size_t count,
                      const int squares, const vf* mean, vf* total) {
  const size_t rows = fold_rows(f), last = count - (size_t)(vectors - 1) * VL;
  const int64_t step = f->gone_src[f->gone - 1];
  for (int v = 0; v < vectors; ++v) total[v] = vset(0.0f);
  for (size_t row = 0; row < rows; ++row) {
    const float* at = src + fold_row(f, row, f->gone_src);
    vf part[LANES];
    for (int v = 0; v < vectors; ++v) part[v] = vset(0.0f);
    for (size_t i = 0; i < f->length; ++i, at += step) {
      for (int v = 0; v < vectors; ++v) {
        const vf x = full || v + 1 < vectors ? vload(at + v * VL) : vload_part(at + v * VL, last);
        if (squares) {
          part[v] += (x - mean[v]) * (x - mean[v]);
        } else {
          part[v] += x;
        }
      }
    }
    for (int v = 0; v < vectors; ++v) total[v] += part[v];
  }
}

INLINE void reduce_lanes(const int vectors, const int full, const fold* f, const float* src, float* dst, size_t count) {
  const int64_t kind = f->call->words[AT_REDUCE_KIND];
  const double elements = (double)(fold_rows(f) * f->length);
  vf mean[LANES], found[LANES];
  lanes_sum(vectors, full, f, src, count, 0, NULL, found);
  for (int v = 0; v < vectors && kind != AT_REDUCE_SUM; ++v) found[v] = found[v] * vset((float)(1.0 / elements));
  if (kind == AT_REDUCE_VAR) {
    const double rest = elements - at_number(f->call->words[AT_REDUCE_CORRECTION]);
    for (int v = 0; v < vectors; ++v) mean[v] = found[v];
    lanes_sum(vectors, full, f, src, count, 1, mean, found);
    for (int v = 0; v < vectors; ++v) found[v] = found[v] / vset((float)(rest > 0 ? rest : 0));
  }
  for (int v = 0; v < vectors; ++v) {
    vstore_part(dst + v * VL, found[v], full || v + 1 < vectors ? VL : count - (size_t)(vectors - 1) * VL);
  }
}

static void reduce_middle(const fold* f, const char* src, char* dst, unsigned thread) {
  const at_call* call = f->call;
  const size_t size = at_size(call->src[0].dtype);
  median_key* keys = (median_key*)(void*)(call->scratch + thread * call->scratch_bytes);
  const size_t place = median_of(src, call->src[0].dtype, f->gone_src[0], f->length, keys);
  memcpy(dst, src + (int64_t)place * f->gone_src[0] * (int64_t)size, size);
}

static size_t reduce_need(const at_call* call) {
  if (call->words[AT_REDUCE_KIND] != AT_REDUCE_MEDIAN) return 0;
  const fold f = fold_of(call, (uint64_t)call->words[AT_REDUCE_DIMS]);
  return at_bytes((unsigned __int128)f.length * sizeof(median_key));
}

static void reduce_item(void* argument, size_t item, unsigned thread) {
  const fold* f = argument;
  const at_call* call = f->call;
  const size_t size = at_size(call->src[0].dtype),
               last = (item + 1) * f->each < f->items ? (item + 1) * f->each : f->items;
  const int64_t kind = call->words[AT_REDUCE_KIND];
  const int bytes = call->src[0].dtype == AT_I8;
  const int lanes = f->kept && f->kept_src[f->kept - 1] == 1 && f->kept_dst[f->kept - 1] == 1 &&
                    (bytes || (call->src[0].dtype == AT_F32 &&
                               (kind == AT_REDUCE_SUM || kind == AT_REDUCE_MEAN || kind == AT_REDUCE_VAR)));
  for (size_t at = item * f->each; at < last;) {
    int64_t src, dst;
    fold_at(f, at, &src, &dst);
    const char* from = call->src[0].data + src * (int64_t)size;
    char* to = call->dst.data + dst * (int64_t)at_size(call->dst.dtype);
    size_t count = 1;
    if (kind == AT_REDUCE_MEDIAN) {
      reduce_middle(f, from, to, thread);
    } else if (lanes) {
      const size_t row = (size_t)f->kept_dim[f->kept - 1], left = row - at % row;
      const float* floats = (const float*)(const void*)from;
      count = left < last - at ? left : last - at;
      if (bytes) {
        if (count > BYTES_AT_ONCE) count = BYTES_AT_ONCE;
        sum_bytes_lanes(f, (const int8_t*)(const void*)from, (int64_t*)(void*)to, count);
      } else if (count >= LANES * VL) {
        count = LANES * VL;
        reduce_lanes(LANES, 1, f, floats, (float*)(void*)to, count);
      } else {
        if (count > VL) count = VL;
        reduce_lanes(1, 0, f, floats, (float*)(void*)to, count);
      }
    } else if (bytes) {
      sum_bytes(f, (const int8_t*)(const void*)from, (int64_t*)(void*)to);
    } else if (call->src[0].dtype == AT_F32) {
      reduce_floats(f, (const float*)(const void*)from, to);
    } else {
      reduce_wholes(f, from, to);
    }
    at += count;
  }
}

static int reduce(const at_call* call) {
  fold f = fold_of(call, (uint64_t)call->words[AT_REDUCE_DIMS]);
  if (f.items == 0) return 0;
  // The innermost kept dim comes last, whatever its name: lanes need it there.
  for (unsigned i = 0; i + 1 < f.kept; ++i) {
    if (f.kept_src[i] != 1 || f.kept_src[f.kept - 1] == 1) continue;
#define SWAP(FIELD)                   \
  do {                                \
    const int64_t old = f.FIELD[i];   \
    f.FIELD[i] = f.FIELD[f.kept - 1]; \
    f.FIELD[f.kept - 1] = old;        \
  } while (0)
    SWAP(kept_dim);
    SWAP(kept_src);
    SWAP(kept_dst);
#undef SWAP
  }
  run_fold(&f, reduce_item, WORTH_AN_ITEM);
  return 0;
}

static int cumsum(const at_call* call) {
  const fold f = fold_of(call, 1ull << call->words[AT_CUMSUM_AXIS]);
  const size_t size = at_size(call->src[0].dtype), made = at_size(call->dst.dtype);
  for (size_t item = 0; item < f.items; ++item) {
    int64_t src, dst, whole = 0;
    float number = 0;
    fold_at(&f, item, &src, &dst);
    for (size_t i = 0; i < f.length; ++i) {
      const char* in = call->src[0].data + (src + (int64_t)i * f.gone_src[0]) * (int64_t)size;
      char* out = call->dst.data + (dst + (int64_t)i * f.gone_dst[0]) * (int64_t)made;
      if (is_float(call->dst.dtype)) {
        number += is_float(call->src[0].dtype) ? load_float(in, call->src[0].dtype)
                                               : (float)load_whole(in, call->src[0].dtype);
        store_float(out, call->dst.dtype, number);
      } else {
        whole = (int64_t)((uint64_t)whole + (uint64_t)load_whole(in, call->src[0].dtype));
        store_whole(out, call->dst.dtype, whole);
      }
    }
  }
  return 0;
}
