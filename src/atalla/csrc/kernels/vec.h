// Vectors of floats of one width: how they are read, written, compared and mixed; included once for each instruction
// set. Needs VL, the floats of a vector.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

typedef float vf __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * VL), aligned(4), may_alias));  // bits that may wrap around

#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL _Pragma("GCC unroll 16")  // early, so that all sums become registers

INLINE vf vload(const float* at) { return *(const vf*)at; }

INLINE void vstore(float* at, vf value) { *(vf*)at = value; }

INLINE vf vset(float value) { return value - (vf){0}; }

INLINE vi viset(int32_t value) { return value - (vi){0}; }

// sum + x·w, rounded once where the processor can; from version 14 on GCC would make two instructions of it where sums
// are added up one after the other.
INLINE vf vadd_product(vf sum, vf x, vf w) {
#if defined(__AVX512F__) && VL == 16
  return (vf)_mm512_fmadd_ps((__m512)x, (__m512)w, (__m512)sum);
#elif defined(__FMA__) && VL == 8
  return (vf)_mm256_fmadd_ps((__m256)x, (__m256)w, (__m256)sum);
#else
  return sum + x * w;
#endif
}

// The first `count` floats, zeros behind them; no byte beyond them is read or written.
#if defined(__AVX2__) && VL == 8
INLINE __m256i vfirst(size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vf vload_part(const float* at, size_t count) { return (vf)_mm256_maskload_ps(at, vfirst(count)); }

INLINE void vstore_part(float* at, vf value, size_t count) { _mm256_maskstore_ps(at, vfirst(count), (__m256)value); }

INLINE vf vload_or(const float* at, size_t count, vf rest) {
  return (vf)_mm256_blendv_ps((__m256)rest, (__m256)vload_part(at, count), (__m256)vfirst(count));
}
#elif defined(__AVX512F__) && VL == 16
INLINE vf vload_part(const float* at, size_t count) {
  return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), at);
}

INLINE void vstore_part(float* at, vf value, size_t count) {
  _mm512_mask_storeu_ps(at, (__mmask16)((1u << count) - 1), (__m512)value);
}

INLINE vf vload_or(const float* at, size_t count, vf rest) {
  return (vf)_mm512_mask_loadu_ps((__m512)rest, (__mmask16)((1u << count) - 1), at);
}
#else
INLINE vf vload_part(const float* at, size_t count) {
  vf value = {0};
  memcpy(&value, at, count * sizeof(float));
  return value;
}

INLINE void vstore_part(float* at, vf value, size_t count) { memcpy(at, &value, count * sizeof(float)); }

INLINE vf vload_or(const float* at, size_t count, vf rest) {
  memcpy(&rest, at, count * sizeof(float));
  return rest;
}
#endif

// a[0] b[0] a[1] b[1] …: the first half of it, and the second.
#if defined(__AVX2__) && VL == 8
INLINE vf vmix_low(vf a, vf b) {
  const __m256 low = _mm256_unpacklo_ps((__m256)a, (__m256)b), high = _mm256_unpackhi_ps((__m256)a, (__m256)b);
  return (vf)_mm256_permute2f128_ps(low, high, 0x20);
}

INLINE vf vmix_high(vf a, vf b) {
  const __m256 low = _mm256_unpacklo_ps((__m256)a, (__m256)b), high = _mm256_unpackhi_ps((__m256)a, (__m256)b);
  return (vf)_mm256_permute2f128_ps(low, high, 0x31);
}
#elif defined(__AVX512F__) && VL == 16
INLINE vf vmix_low(vf a, vf b) {
  const __m512i from = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return (vf)_mm512_permutex2var_ps((__m512)a, from, (__m512)b);
}

INLINE vf vmix_high(vf a, vf b) {
  const __m512i from = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return (vf)_mm512_permutex2var_ps((__m512)a, from, (__m512)b);
}
#else
INLINE vf vmix_low(vf a, vf b) {
  vf mixed = {0};
  for (int i = 0; i < VL; ++i) mixed[i] = i % 2 ? b[i / 2] : a[i / 2];
  return mixed;
}

INLINE vf vmix_high(vf a, vf b) {
  vf mixed = {0};
  for (int i = 0; i < VL; ++i) mixed[i] = i % 2 ? b[(VL + i) / 2] : a[(VL + i) / 2];
  return mixed;
}
#endif

// a[0] a[2] a[4] … b[0] b[2] …, and those between them.
#if defined(__AVX2__) && VL == 8
INLINE vf veven(vf a, vf b) {
  const __m256 mixed = _mm256_shuffle_ps((__m256)a, (__m256)b, 0x88);  // within halves
  return (vf)_mm256_permute4x64_pd((__m256d)mixed, 0xd8);
}

INLINE vf vodd(vf a, vf b) {
  const __m256 mixed = _mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd);
  return (vf)_mm256_permute4x64_pd((__m256d)mixed, 0xd8);
}
#elif defined(__AVX512F__) && VL == 16
INLINE vf veven(vf a, vf b) {
  const __m512i from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return (vf)_mm512_permutex2var_ps((__m512)a, from, (__m512)b);
}

INLINE vf vodd(vf a, vf b) {
  const __m512i from = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return (vf)_mm512_permutex2var_ps((__m512)a, from, (__m512)b);
}
#else
INLINE vf veven(vf a, vf b) {
  vf found = {0};
  for (int i = 0; i < VL; ++i) found[i] = i < VL / 2 ? a[2 * i] : b[2 * i - VL];
  return found;
}

INLINE vf vodd(vf a, vf b) {
  vf found = {0};
  for (int i = 0; i < VL; ++i) found[i] = i < VL / 2 ? a[2 * i + 1] : b[2 * i + 1 - VL];
  return found;
}
#endif

// Of vectors of sixteen: eight floats twice, the first half of a before the second of b, and the halves changed over.
#if defined(__AVX512F__) && VL == 16
INLINE vf vload_twice(const float* at) {
  return (vf)_mm512_broadcast_f64x4(_mm256_loadu_pd((const double*)(const void*)at));
}

INLINE vf vhalves(vf a, vf b) { return (vf)_mm512_mask_blend_ps(0xff00, (__m512)a, (__m512)b); }

INLINE vf vturned(vf a) { return (vf)_mm512_shuffle_f64x2((__m512d)a, (__m512d)a, 0x4e); }
#else
INLINE vf vload_twice(const float* at) {
  vf found = {0};
  for (int i = 0; i < VL; ++i) found[i] = at[i % (VL / 2)];
  return found;
}

INLINE vf vhalves(vf a, vf b) {
  for (int i = VL / 2; i < VL; ++i) a[i] = b[i];
  return a;
}

INLINE vf vturned(vf a) {
  vf found = {0};
  for (int i = 0; i < VL; ++i) found[i] = a[(i + VL / 2) % VL];
  return found;
}
#endif

// Across the lanes, half by half: their sum, and the largest, NaN left aside.
INLINE float vtotal(vf x) {
  float at[VL];
  vstore(at, x);
  UNROLL for (int half = VL / 2; half; half /= 2) { UNROLL for (int i = 0; i < half; ++i) at[i] += at[i + half]; }
  return at[0];
}

INLINE float vlargest(vf x) {
  float at[VL];
  vstore(at, x);
  UNROLL for (int half = VL / 2; half; half /= 2) {
    UNROLL for (int i = 0; i < half; ++i) at[i] = at[i] > at[i + half] ? at[i] : at[i + half];
  }
  return at[0];
}

// Rows become columns: each step turns the number of an element, its row's bits and then its lane's, by one bit.
INLINE void vtranspose(vf x[VL]) {
  for (int step = 1; step < VL; step *= 2) {
    vf mixed[VL];
    for (int i = 0; i < VL / 2; ++i) {
      mixed[2 * i] = vmix_low(x[i], x[i + VL / 2]);
      mixed[2 * i + 1] = vmix_high(x[i], x[i + VL / 2]);
    }
    for (int i = 0; i < VL; ++i) x[i] = mixed[i];
  }
}

// What comparisons give, and mask ? yes : no.
#if defined(__AVX512F__) && VL == 16
typedef __mmask16 vm;

INLINE vm vless(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }

INLINE vm vsame(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }

INLINE vm vnan(vf a) { return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q); }

INLINE vm viless(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }

INLINE vf vselect(vm mask, vf yes, vf no) { return (vf)_mm512_mask_blend_ps(mask, (__m512)no, (__m512)yes); }
#else
typedef vi vm;  // all ones or all zeros

INLINE vm vless(vf a, vf b) { return a < b; }

INLINE vm vsame(vf a, vf b) { return a == b; }

INLINE vm vnan(vf a) { return a != a; }

INLINE vm viless(vi a, vi b) { return a < b; }

INLINE vf vselect(vm mask, vf yes, vf no) {
#if defined(__AVX2__) && VL == 8
  return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
  return (vf)((mask & (vi)yes) | (~mask & (vi)no));
#endif
}
#endif

INLINE int vhas_nan(vf a) {
#if defined(__AVX512F__) && VL == 16
  return vnan(a) != 0;
#elif defined(__AVX2__) && VL == 8
  return _mm256_movemask_ps((__m256)vnan(a)) != 0;
#else
  const vm nan = vnan(a);
  int found = 0;
  for (int lane = 0; lane < VL; ++lane) found |= nan[lane];
  return found;
#endif
}

INLINE vf vmax(vf a, vf b) { return vselect(vless(b, a) | vnan(a), a, b); }  // NaN if one of them is

INLINE vf vmin(vf a, vf b) { return vselect(vless(a, b) | vnan(a), a, b); }

INLINE vf vabs(vf a) { return (vf)((vi)a & viset(0x7fffffff)); }

// Not below, not above a number; NaN stays NaN: x86 returns the second operand where one is NaN.
#if defined(__AVX__) && VL == 8
INLINE vf vfloor_at(vf a, vf low) { return (vf)_mm256_max_ps((__m256)low, (__m256)a); }

INLINE vf vceil_at(vf a, vf high) { return (vf)_mm256_min_ps((__m256)high, (__m256)a); }
#elif defined(__AVX512F__) && VL == 16
INLINE vf vfloor_at(vf a, vf low) { return (vf)_mm512_max_ps((__m512)low, (__m512)a); }

INLINE vf vceil_at(vf a, vf high) { return (vf)_mm512_min_ps((__m512)high, (__m512)a); }
#else
INLINE vf vfloor_at(vf a, vf low) { return vselect(vless(a, low), low, a); }

INLINE vf vceil_at(vf a, vf high) { return vselect(vless(high, a), high, a); }
#endif

INLINE vf vclamp(vf a, float low, float high) { return vceil_at(vfloor_at(a, vset(low)), vset(high)); }

INLINE vf vrelu(vf x) { return vfloor_at(x, vset(0.0f)); }

// To the nearest whole number, for |a| < 2^22: what is added pushes the fraction out.
INLINE vf vround(vf a) {
  const vf shift = vset(12582912.0f);  // 1.5 · 2^23
  return (a + shift) - shift;
}

// To the nearest whole number, half to even, whatever the size.
#if defined(__AVX__) && VL == 8
INLINE vf vnearest(vf a) { return (vf)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#elif defined(__AVX512F__) && VL == 16
INLINE vf vnearest(vf a) { return (vf)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#else
INLINE vf vnearest(vf a) {
  for (int i = 0; i < VL; ++i) a[i] = nearbyintf(a[i]);
  return a;
}
#endif
