// POOL2D: the largest or the mean of each window; channels are innermost.
#pragma once

#include "narrow.h"
#include "walk.h"

// The taps of a window, one each `step` from `first`, that lie within an image's extent.
typedef struct {
  int64_t from, to;
} taps_inside;

INLINE taps_inside clip(int64_t first, int64_t step, int64_t count, int64_t extent) {
  if (first >= 0 && first + (count - 1) * step < extent) return (taps_inside){0, count};
  const int64_t from = first < 0 ? (step - 1 - first) / step : 0;
  const int64_t to = first < extent ? (extent - first + step - 1) / step : 0, most = to < count ? to : count;
  return (taps_inside){from, most > from ? most : from};
}

// The largest numbers of int8 are found as floats, which they are exactly.
INLINE vf pool_load(const char* at, size_t count, const int is_int8) {
  if (is_int8) return count == VL ? vload_int8((const int8_t*)at) : vload_int8_part((const int8_t*)at, count);
  const float* floats = (const float*)(const void*)at;
  return count == VL ? vload(floats) : vload_part(floats, count);
}

INLINE void pool_store(char* at, vf found, size_t count, const int is_int8) {
  float* floats = (float*)(void*)at;
  if (is_int8) {
    count == VL ? vstore_int8((int8_t*)at, found) : vstore_int8_part((int8_t*)at, found, count);
  } else {
    count == VL ? vstore(floats, found) : vstore_part(floats, found, count);
  }
}

typedef struct {
  const char* first;    // where the first tap's elements are
  int64_t down, right;  // bytes between taps
  int64_t high, wide;   // taps
} window;

// The largest that `count` neighbouring channels of a window hold, NaN left aside, and their sum in `all`: it is NaN
// where one of them is, or where infinities of both signs meet.
INLINE vf pool_largest(const int wide, const window* w, size_t count, vf* all) {
  vf found = vset(-INFINITY), sum = vset(0.0f);
  for (int64_t i = 0; i < w->high; ++i) {
    const char* at = w->first + i * w->down;
    for (int64_t j = 0; j < (wide ? wide : w->wide); ++j, at += w->right) {
      const vf value = pool_load(at, count, 0);
      found = vfloor_at(found, value);
      sum += value;
    }
  }
  *all = sum;
  return found;
}

// The largest or the sum of what `count` neighbouring channels of a window hold.
INLINE vf pool_window(const int is_int8, const int is_max, const window* w, size_t count) {
  if (is_max && !is_int8) {
    vf all;
    const vf largest = w->wide == 3   ? pool_largest(3, w, count, &all)
                       : w->wide == 2 ? pool_largest(2, w, count, &all)
                                      : pool_largest(0, w, count, &all);
    if (!vhas_nan(all)) return largest;
  }
  vf found = vset(is_max ? (is_int8 ? INT8_MIN : -INFINITY) : 0.0f);
  for (int64_t i = 0; i < w->high; ++i) {
    const char* at = w->first + i * w->down;
    for (int64_t j = 0; j < w->wide; ++j, at += w->right) {
      const vf value = pool_load(at, count, is_int8);
      if (is_max) {
        found = vselect(vless(found, value) | vnan(value), value, found);
      } else {
        found += value;
      }
    }
  }
  return found;
}

INLINE void pool_row(const int is_int8, const at_call* call, size_t item) {
  const at_view *dst = &call->dst, *src = &call->src[0];
  const int64_t size = is_int8 ? 1 : sizeof(float), *words = call->words, kind = words[AT_POOL2D_KIND];
  const int64_t high = dst->dim[2], wide = dst->dim[3], n = (int64_t)item / high, y = (int64_t)item % high;
  const size_t channels = (size_t)dst->dim[1];
  const char* image = src->data + n * src->stride[0] * size;
  const int64_t top = y * words[AT_POOL2D_STRIDE_H] - words[AT_POOL2D_TOP];
  const taps_inside rows = clip(top, words[AT_POOL2D_DILATION_H], words[AT_POOL2D_KERNEL_H], src->dim[2]);
  for (int64_t x = 0; x < wide; ++x) {
    const int64_t left = x * words[AT_POOL2D_STRIDE_W] - words[AT_POOL2D_LEFT];
    char* out = dst->data + (n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3]) * size;
    const taps_inside columns = clip(left, words[AT_POOL2D_DILATION_W], words[AT_POOL2D_KERNEL_W], src->dim[3]);
    window w = {.first = image, .high = rows.to - rows.from, .wide = columns.to - columns.from};
    int64_t inside = w.high * w.wide;
    if (inside) {  // else nothing may be reckoned with what lies outside of the image
      const int64_t row = top + rows.from * words[AT_POOL2D_DILATION_H];
      const int64_t column = left + columns.from * words[AT_POOL2D_DILATION_W];
      w.first += (row * src->stride[2] + column * src->stride[3]) * size;
      if (w.high > 1) w.down = words[AT_POOL2D_DILATION_H] * src->stride[2] * size;
      if (w.wide > 1) w.right = words[AT_POOL2D_DILATION_W] * src->stride[3] * size;
    }
    if (kind == AT_POOL_MEAN_PADDED) inside = words[AT_POOL2D_KERNEL_H] * words[AT_POOL2D_KERNEL_W];
    for (size_t c = 0; c < channels; c += VL, w.first += VL * size) {
      const size_t count = channels - c < VL ? channels - c : VL;
      vf found;
      if (kind == AT_POOL_MAX) {
        found = count == VL ? pool_window(is_int8, 1, &w, VL) : pool_window(is_int8, 1, &w, count);
      } else {
        found = count == VL ? pool_window(is_int8, 0, &w, VL) : pool_window(is_int8, 0, &w, count);
        found = found / vset((float)inside);
      }
      pool_store(out + (int64_t)c * size, found, count, is_int8);
    }
  }
}

typedef int8_t bytes16 __attribute__((vector_size(16), aligned(1), may_alias));

// The largest of int8, sixteen channels at a time, where there are as many: some of them again at the end.
static void pool_bytes(const at_call* call, size_t item) {
  const at_view *dst = &call->dst, *src = &call->src[0];
  const int64_t* words = call->words;
  const int64_t high = dst->dim[2], wide = dst->dim[3], n = (int64_t)item / high, y = (int64_t)item % high;
  const size_t channels = (size_t)dst->dim[1];
  const int8_t* image = (const int8_t*)src->data + n * src->stride[0];
  const int64_t top = y * words[AT_POOL2D_STRIDE_H] - words[AT_POOL2D_TOP];
  const taps_inside rows = clip(top, words[AT_POOL2D_DILATION_H], words[AT_POOL2D_KERNEL_H], src->dim[2]);
  for (int64_t x = 0; x < wide; ++x) {
    const int64_t left = x * words[AT_POOL2D_STRIDE_W] - words[AT_POOL2D_LEFT];
    const taps_inside columns = clip(left, words[AT_POOL2D_DILATION_W], words[AT_POOL2D_KERNEL_W], src->dim[3]);
    int8_t* out = (int8_t*)dst->data + n * dst->stride[0] + y * dst->stride[2] + x * dst->stride[3];
    for (size_t done = 0; done < channels; done += 16) {
      const size_t c = done + 16 <= channels ? done : channels - 16;
      bytes16 found = (bytes16){0} + INT8_MIN;
      for (int64_t i = rows.from; i < rows.to; ++i) {
        const int8_t* line = image + (top + i * words[AT_POOL2D_DILATION_H]) * src->stride[2] + c;
        for (int64_t j = columns.from; j < columns.to; ++j) {
          const int64_t column = left + j * words[AT_POOL2D_DILATION_W];
          const bytes16 value = *(const bytes16*)(line + column * src->stride[3]);
          const bytes16 above = value > found;
          found = (value & above) | (found & ~above);
        }
      }
      *(bytes16*)(out + c) = found;
    }
  }
}

static void pool_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const at_call* call = *(const at_call* const*)argument;
  if (call->dst.dtype != AT_I8) {
    pool_row(0, call, item);
  } else if (call->dst.dim[1] >= 16) {
    pool_bytes(call, item);
  } else {
    pool_row(1, call, item);
  }
}

static int pool2d(const at_call* call) {
  if (at_elements(&call->dst) == 0) return 0;
  at_pool_run(call->pool, (size_t)(call->dst.dim[0] * call->dst.dim[2]), pool_item, (void*)&call);
  return 0;
}
