// REDUCE, SOFTMAX, NORM, CUMSUM.
#pragma once

#include "walk.h"

// Dims of a view in two groups: those that are kept, one item each, and those that an item goes through.
typedef struct {
  const at_call* call;
  unsigned kept, gone;
  int64_t kept_dim[AT_DIMS], gone_dim[AT_DIMS];
  int64_t kept_src[AT_DIMS], kept_dst[AT_DIMS], gone_src[AT_DIMS], gone_dst[AT_DIMS];
  size_t items, length;  // length: of the innermost dim that an item goes through
  size_t each;           // kept elements of an item of the pool
} fold;

INLINE fold fold_of(const at_call* call, uint64_t mask) {
  const at_view *src = &call->src[0], *dst = &call->dst;
  fold f = {.call = call, .items = 1};
  for (unsigned i = 0; i < src->rank; ++i) {
    if (mask >> i & 1) {
      f.gone_dim[f.gone] = src->dim[i];
      f.gone_src[f.gone] = src->stride[i];
      f.gone_dst[f.gone++] = dst->stride[i];
    } else {
      f.kept_dim[f.kept] = src->dim[i];
      f.kept_src[f.kept] = src->stride[i];
      f.kept_dst[f.kept++] = dst->stride[i];
      f.items *= (size_t)src->dim[i];
    }
  }
  if (!f.gone) {
    f.gone = 1;
    f.gone_dim[0] = 1;
  }
  f.length = (size_t)f.gone_dim[f.gone - 1];
  return f;
}

INLINE void fold_at(const fold* f, size_t item, int64_t* src, int64_t* dst) {
  *src = *dst = 0;
  for (unsigned i = f->kept; i-- > 0;) {
    const int64_t index = (int64_t)(item % (size_t)f->kept_dim[i]);
    item /= (size_t)f->kept_dim[i];
    *src += index * f->kept_src[i];
    *dst += index * f->kept_dst[i];
  }
}

// Rows of the innermost dim that an item goes through.
INLINE size_t fold_rows(const fold* f) {
  size_t rows = 1;
  for (unsigned i = 0; i + 1 < f->gone; ++i) rows *= (size_t)f->gone_dim[i];
  return rows;
}

INLINE int64_t fold_row(const fold* f, size_t row, const int64_t* strides) {
  int64_t offset = 0;
  for (unsigned i = f->gone - 1; i-- > 0;) {
    offset += (int64_t)(row % (size_t)f->gone_dim[i]) * strides[i];
    row /= (size_t)f->gone_dim[i];
  }
  return offset;
}

// Sums in pairs of halves, so that rounding errors grow with the logarithm of the count.
static float sum_row(const float* at, int64_t step, size_t count) {
  if (count > 256) {
    const size_t half = count / 2 / VL * VL;
    return sum_row(at, step, half) + sum_row(at + (int64_t)half * step, step, count - half);
  }
  float total = 0;
  size_t i = 0;
  if (step == 1) {
    vf sums = vset(0.0f);
    for (; i + VL <= count; i += VL) sums += vload(at + i);
    for (int lane = 0; lane < VL; ++lane) total += sums[lane];
  }
  for (; i < count; ++i) total += at[(int64_t)i * step];
  return total;
}

static float squares_row(const float* at, int64_t step, size_t count, float mean) {
  if (count > 256) {
    const size_t half = count / 2 / VL * VL;
    return squares_row(at, step, half, mean) + squares_row(at + (int64_t)half * step, step, count - half, mean);
  }
  float total = 0;
  size_t i = 0;
  if (step == 1) {
    vf sums = vset(0.0f);
    for (; i + VL <= count; i += VL) {
      const vf x = vload(at + i) - vset(mean);
      sums += x * x;
    }
    for (int lane = 0; lane < VL; ++lane) total += sums[lane];
  }
  for (; i < count; ++i) {
    const float x = at[(int64_t)i * step] - mean;
    total += x * x;
  }
  return total;
}

static float fold_sum(const fold* f, const float* src) {
  double total = 0;
  const size_t rows = fold_rows(f);
  for (size_t row = 0; row < rows; ++row) {
    total += sum_row(src + fold_row(f, row, f->gone_src), f->gone_src[f->gone - 1], f->length);
  }
  return (float)total;
}

static float fold_squares(const fold* f, const float* src, float mean) {
  double total = 0;
  const size_t rows = fold_rows(f);
  for (size_t row = 0; row < rows; ++row) {
    total += squares_row(src + fold_row(f, row, f->gone_src), f->gone_src[f->gone - 1], f->length, mean);
  }
  return (float)total;
}

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

// Means of many neighbours at once: channels are innermost and kept, as in an image's mean.
static void reduce_lanes(const fold* f, const float* src, float* dst, size_t count) {
  const int64_t kind = f->call->words[AT_REDUCE_KIND];
  const size_t rows = fold_rows(f);
  const vf scale = vset(kind == AT_REDUCE_MEAN ? 1.0f / (float)(rows * f->length) : 1.0f);
  vf total = vset(0.0f);
  for (size_t row = 0; row < rows; ++row) {
    const float* at = src + fold_row(f, row, f->gone_src);
    vf part = vset(0.0f);
    for (size_t i = 0; i < f->length; ++i) {
      const float* here = at + (int64_t)i * f->gone_src[f->gone - 1];
      part += count == VL ? vload(here) : vload_part(here, count);
    }
    total += part;
  }
  vstore_part(dst, total * scale, count);
}

static void reduce_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const fold* f = argument;
  const at_call* call = f->call;
  const size_t size = at_size(call->src[0].dtype),
               last = (item + 1) * f->each < f->items ? (item + 1) * f->each : f->items;
  const int64_t kind = call->words[AT_REDUCE_KIND];
  const int lanes = f->kept && call->src[0].dtype == AT_F32 && f->kept_src[f->kept - 1] == 1 &&
                    f->kept_dst[f->kept - 1] == 1 && (kind == AT_REDUCE_SUM || kind == AT_REDUCE_MEAN);
  for (size_t at = item * f->each; at < last;) {
    int64_t src, dst;
    fold_at(f, at, &src, &dst);
    const char* from = call->src[0].data + src * (int64_t)size;
    char* to = call->dst.data + dst * (int64_t)at_size(call->dst.dtype);
    size_t count = 1;
    if (lanes) {
      const size_t row = (size_t)f->kept_dim[f->kept - 1], left = row - at % row;
      count = left < VL ? left : VL;
      if (count > last - at) count = last - at;
      reduce_lanes(f, (const float*)(const void*)from, (float*)(void*)to, count);
    } else if (call->src[0].dtype == AT_F32) {
      reduce_floats(f, (const float*)(const void*)from, to);
    } else {
      reduce_wholes(f, from, to);
    }
    at += count;
  }
}

static void run_fold(fold* f, at_body body, size_t worth) {
  const unsigned threads = at_pool_threads(f->call->pool);
  f->each = threads > 1 ? (worth + f->length * fold_rows(f)) / (f->length * fold_rows(f) + 1) : f->items;
  if (f->each < 64 && threads > 1) f->each = f->each < 1 ? 1 : f->each;
  if (f->each > f->items || f->each == 0) f->each = f->items ? f->items : 1;
  at_pool_run(f->call->pool, (f->items + f->each - 1) / f->each, body, f);
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
      const vf e = vexp(x - vset(largest));
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
