// Narrow: int8 as vectors of floats, and back; what lies between two of them is computed in float32.
#pragma once

#include "vec.h"

typedef int8_t vb __attribute__((vector_size(VL), aligned(1), may_alias));

INLINE vf vload_int8(const int8_t* at) { return __builtin_convertvector(*(const vb*)at, vf); }

INLINE vf vload_int8_part(const int8_t* at, size_t count) {
  vb value = {0};
  for (size_t i = 0; i < count; ++i) value[i] = at[i];
  return __builtin_convertvector(value, vf);
}

// Half to even, of what lies between -128 and 127.
INLINE vb vto_int8(vf x) { return __builtin_convertvector(__builtin_convertvector(vround(x), vi), vb); }

INLINE void vstore_int8(int8_t* at, vf x) { *(vb*)at = vto_int8(x); }

INLINE void vstore_int8_part(int8_t* at, vf x, size_t count) {
#if defined(__AVX512BW__) && defined(__AVX512VL__) && VL == 16
  _mm_mask_storeu_epi8(at, (__mmask16)((1u << count) - 1), (__m128i)vto_int8(x));
#else
  const vb value = vto_int8(x);
  for (size_t i = 0; i < count; ++i) at[i] = value[i];
#endif
}
