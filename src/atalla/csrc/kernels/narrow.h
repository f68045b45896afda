// Narrow: int8 as vectors of floats, and back; what lies between two of them is computed in float32.
#pragma once

#include "vec.h"

typedef int8_t vb __attribute__((vector_size(VL), aligned(1), may_alias));

// Numbers between -128 and 127 become int8 half to even, NaN 0.
//
// Compilers take vectors of so different widths apart, so both ways are said by hand.
#if defined(__AVX512F__) && VL == 16
INLINE vf vfrom_int8(vb x) { return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)x)); }

INLINE vb vto_int8(vf x) { return (vb)_mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)x)); }
#elif defined(__AVX2__) && VL == 8
INLINE vf vfrom_int8(vb x) { return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32((__m128i)(__v2di){(int64_t)x, 0})); }

INLINE __m256i vlow_bytes(vf x) { return _mm256_and_si256(_mm256_cvtps_epi32((__m256)x), _mm256_set1_epi32(0xff)); }

// Two places get 16 numbers each.
INLINE void vstore_int8_twice(int8_t* at, vf a, vf b, int8_t* to, vf c, vf d) {
  const __m256i first = _mm256_packus_epi32(vlow_bytes(a), vlow_bytes(b));
  const __m256i second = _mm256_packus_epi32(vlow_bytes(c), vlow_bytes(d));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packing takes half of each in turn
  const __m256i all = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order);
  _mm_storeu_si128((__m128i*)(void*)at, _mm256_castsi256_si128(all));
  _mm_storeu_si128((__m128i*)(void*)to, _mm256_extracti128_si256(all, 1));
}

INLINE vb vto_int8(vf x) {
  const __m256i bytes = vlow_bytes(x);
  const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  return (vb)((__v2di)_mm_packus_epi16(halves, halves))[0];
}
#else
INLINE vf vfrom_int8(vb x) { return __builtin_convertvector(x, vf); }

INLINE vb vto_int8(vf x) { return __builtin_convertvector(__builtin_convertvector(vround(x), vi), vb); }
#endif

INLINE vf vload_int8(const int8_t* at) { return vfrom_int8(*(const vb*)at); }

INLINE vf vload_int8_part(const int8_t* at, size_t count) {
  vb value = {0};
  for (size_t i = 0; i < count; ++i) value[i] = at[i];
  return vfrom_int8(value);
}

INLINE void vstore_int8(int8_t* at, vf x) { *(vb*)at = vto_int8(x); }

INLINE void vstore_int8_part(int8_t* at, vf x, size_t count) {
#if defined(__AVX512BW__) && defined(__AVX512VL__) && VL == 16
  _mm_mask_storeu_epi8(at, (__mmask16)((1u << count) - 1), (__m128i)vto_int8(x));
#else
  const vb value = vto_int8(x);
  for (size_t i = 0; i < count; ++i) at[i] = value[i];
#endif
}
