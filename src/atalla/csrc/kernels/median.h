// REDUCE by MEDIAN: keys that no two elements share, of which the one in the middle is selected.
#pragma once

#include "walk.h"

typedef unsigned __int128 median_key;  // the element's order, then its number

// Bits in the order of the numbers: −0 is 0, all NaNs are equal and above all else.
INLINE uint64_t order_of_float(float value) {
  if (value != value) return UINT64_MAX;
  union {
    float value;
    uint32_t bits;
  } both = {value + 0.0f};
  return both.bits >> 31 ? (uint32_t)~both.bits : both.bits | 0x80000000u;
}

INLINE uint64_t order_of_whole(int64_t value) { return (uint64_t)value ^ (uint64_t)1 << 63; }

// The key that `place` others are below; the keys change places. Hoare's selection (1961), with a pivot by chance.
static median_key median_select(median_key* keys, size_t count, size_t place) {
  size_t low = 0, high = count;  // it is in low … high − 1
  uint64_t chance = 0x9e3779b97f4a7c15u;
  while (high - low > 1) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    const size_t chosen = low + (size_t)(chance >> 33) % (high - low);
    const median_key pivot = keys[chosen];
    keys[chosen] = keys[low];
    keys[low] = pivot;
    size_t below = low;  // low + 1 … below are below the pivot
    for (size_t i = low + 1; i < high; ++i) {
      if (keys[i] >= pivot) continue;
      const median_key other = keys[++below];
      keys[below] = keys[i];
      keys[i] = other;
    }
    keys[low] = keys[below];
    keys[below] = pivot;
    if (below == place) return pivot;
    if (below < place) {
      low = below + 1;
    } else {
      high = below;
    }
  }
  return keys[low];
}

// The number of the element in the middle; of NaNs the first.
static size_t median_of(const char* src, uint8_t dtype, int64_t step, size_t count, median_key* keys) {
  const int64_t bytes = step * (int64_t)at_size(dtype);
  for (size_t i = 0; i < count; ++i, src += bytes) {
    const uint64_t order =
        dtype == AT_F32 ? order_of_float(*(const float*)(const void*)src) : order_of_whole(load_whole(src, dtype));
    if (dtype == AT_F32 && order == UINT64_MAX) return i;
    keys[i] = (median_key)order << 64 | i;
  }
  return (size_t)median_select(keys, count, (count - 1) / 2);
}
