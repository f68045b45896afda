// Elementary functions of vectors of floats: exponentials, logarithms, and the activations that are made of them.
//
// They follow libm to about 1e-7 of the result, or of 1 where the result is small: what float32 networks are compared
// with differs by more.
#pragma once

#include "vec.h"

// For −87.3 ≤ x ≤ 88.7: 2^n · (1 + r + r² · P(r)), n the nearest whole number to x · log2(e), |r| ≤ ln 2 / 2, P a
// minimax fit. It is the second factor, `n` what is rounded: x · log2(e) + `shift`, whose last bits are n.
INLINE vf vexp_parts(vf x, const vf shift, vf* shifted) {
  *shifted = x * vset(1.44269504088896341f) + shift;
  const vf n = *shifted - shift;
  const vf r = x - n * vset(0.693359375f) + n * vset(2.12194440e-4f);  // ln 2 in two parts
  vf p = vset(0.00138145732f);
  p = p * r + vset(0.00836872961f);
  p = p * r + vset(0.041668389f);
  p = p * r + vset(0.166665211f);
  p = p * r + vset(0.49999994f);
  return p * (r * r) + r + vset(1.0f);
}

INLINE vf vexp_inside(vf x) {
  vf shifted;
  const vf p = vexp_parts(x, vset(12582912.0f), &shifted);
  return (vf)((vu)p + ((vu)shifted << 23));  // p's exponent is at least −1, so n is added to its bits
}

// The same where x is below −87.3: 0; NaN stays NaN. Above 88.7 it is anything.
#if defined(__AVX512F__) && VL == 16
INLINE vf vexp_up_to_most(vf x) {
  const vf shift = vset(12582912.0f);
  vf shifted;
  const vf p = vexp_parts(x, shift, &shifted);
  const __mmask16 here = _mm512_cmp_ps_mask((__m512)x, (__m512)vset(-87.3f), _CMP_NLT_UQ);
  return (vf)_mm512_maskz_scalef_ps(here, (__m512)p, (__m512)(shifted - shift));
}
#else
INLINE vf vexp_up_to_most(vf x) {
  const vf found = vexp_inside(vfloor_at(x, vset(-87.3f)));
  return vselect(vnan(x), x, vselect(vless(x, vset(-87.3f)), vset(0.0f), found));
}
#endif

INLINE vf vexp(vf x) {
  const vf most = vset(88.72283f);
  return vselect(vless(most, x), vset(INFINITY), vexp_up_to_most(x));
}

// Where x is not above 88.
#if defined(__AVX512F__) && VL == 16
INLINE vf vexp_down(vf x) { return vexp_up_to_most(x); }
#else
INLINE vf vexp_down(vf x) {
  vf shifted;  // by 1.5 · 2^23 and an exponent's bias: its last bits are those of 2^n
  const vf p = vexp_parts(vfloor_at(x, vset(-87.3f)), vset(12583039.0f), &shifted);
  const vf found = p * (vf)((vu)shifted << 23);  // NaN stays
  return (vf)((vi)found & ~vless(x, vset(-87.3f)));
}
#endif

// x + x³ · P(x²) near zero, P the series; else 1 − 2 / (exp(2x) + 1).
INLINE vf vtanh(vf x) {
  const vf square = x * x;
  vf p = vset(62.0f / 2835);
  p = p * square - vset(17.0f / 315);
  p = p * square + vset(2.0f / 15);
  p = p * square - vset(1.0f / 3);
  const vf near = x + x * square * p;
  const vf far = vset(1.0f) - vset(2.0f) / (vexp(x + x) + vset(1.0f));
  return vselect(vless(vabs(x), vset(0.25f)), near, far);
}

INLINE vf vsigmoid(vf x) { return vset(1.0f) / (vset(1.0f) + vexp(-x)); }

// x · P(x²) up to 1, beyond it ±(1 − exp(Q(|x|))); P and Q are least-squares fits at Chebyshev's points.
INLINE vf verf(vf x) {
  const vf a = vabs(x), square = x * x;
  vf p = vset(7.88249711e-05f);
  p = p * square - vset(0.000801885499f);
  p = p * square + vset(0.00518931194f);
  p = p * square - vset(0.0268543288f);
  p = p * square + vset(0.112835975f);
  p = p * square - vset(0.376126269f);
  p = p * square + vset(1.12837917f);
  const vf bounded = vselect(vless(vset(4.0f), a), vset(4.0f), a);
  vf q = vset(-1.81733614e-05f);
  q = q * bounded + vset(0.000396334025f);
  q = q * bounded - vset(0.00396501356f);
  q = q * bounded + vset(0.0245204898f);
  q = q * bounded - vset(0.107266637f);
  q = q * bounded - vset(0.634347183f);
  q = q * bounded - vset(1.12898066f);
  q = q * bounded + vset(5.53295989e-05f);
  const vf far = vset(1.0f) - vexp_down(q);
  const vf signed_far = (vf)((vi)far | ((vi)x & viset((int32_t)0x80000000)));
  return vselect(vnan(x), x, vselect(vless(a, vset(1.0f)), x * p, signed_far));
}

// Keeps a value where it is in the order of steps: compilers would make one vector after the other.
INLINE void vkeep(vf* x) {
#if defined(__AVX2__) && VL == 8
  __asm__("" : "+x"(*x));
#else
  (void)x;
#endif
}

enum { MOST_TOGETHER = 4 };

#define EACH(OF, VALUE)                    \
  UNROLL for (int i = 0; i < count; ++i) { \
    OF[i] = VALUE;                         \
    vkeep(&OF[i]);                         \
  }

// 2^y where y is not above 0: 0 below −126.5; NaN stays. The second factor is a minimax fit. Of several vectors, step
// by step: while one waits for its last step the others go on. With sixteen floats a vector, where vectors are few, its
// terms wait less for each other; with fewer they had better be few.
INLINE void vexp2_down_all(vf* y, const int count) {
  const vf shift = vset(12583039.0f);  // as in `vexp_down`
  vf shifted[MOST_TOGETHER], r[MOST_TOGETHER], p[MOST_TOGETHER];
  EACH(y, vfloor_at(y[i], vset(-127.0f)))
  EACH(shifted, y[i] + shift)
  EACH(r, shifted[i] - shift)
  EACH(r, y[i] - r[i])
#if VL == 16
  vf square[MOST_TOGETHER], p01[MOST_TOGETHER], p23[MOST_TOGETHER];
  EACH(square, r[i] * r[i])
  EACH(p01, vset(0.693147182f) * r[i] + vset(1.0f))
  EACH(p23, vset(0.055503279f) * r[i] + vset(0.240226507f))
  EACH(p, vset(0.00134002836f) * r[i] + vset(0.00961800572f))
  EACH(p, vset(0.000154758964f) * square[i] + p[i])
  EACH(p, p[i] * square[i] + p23[i])
  EACH(p, p[i] * square[i] + p01[i])
#else
  EACH(p, vset(0.000154758964f) * r[i] + vset(0.00134002836f))
  EACH(p, p[i] * r[i] + vset(0.00961800572f))
  EACH(p, p[i] * r[i] + vset(0.055503279f))
  EACH(p, p[i] * r[i] + vset(0.240226507f))
  EACH(p, p[i] * r[i] + vset(0.693147182f))
  EACH(p, p[i] * r[i] + vset(1.0f))
#endif
  EACH(y, p[i] * (vf)((vu)shifted[i] << 23))
}

// max(x, 0) − |x| / 2 · erfc(|x| / √2); erfc(a / √2) = 2^(a · P(a)) up to 4 · √2, and nothing beyond; 2^y as in
// `vexp_parts`, halved. P is fit so that the result is within 1.2e-8 before it is rounded.
INLINE void vgelu_all(vf* x, const int count) {
  const vf most = vset(5.65685425f), shift = vset(12582912.0f);
  vf size[MOST_TOGETHER], bounded[MOST_TOGETHER], square[MOST_TOGETHER], p[MOST_TOGETHER], q[MOST_TOGETHER],
      shifted[MOST_TOGETHER];
  EACH(size, vabs(x[i]))
  EACH(bounded, vceil_at(size[i], most))
  EACH(square, bounded[i] * bounded[i])
  EACH(p, vset(-2.10671465e-06f) * bounded[i] + vset(3.08123453e-05f))
  EACH(q, vset(-0.000146401842f) * bounded[i] - vset(0.000230205771f))
  EACH(p, p[i] * square[i] + q[i])
  EACH(q, vset(0.0071804039f) * bounded[i] - vset(0.0525724292f))
  EACH(p, p[i] * square[i] + q[i])
  EACH(q, vset(-0.459185421f) * bounded[i] - vset(1.15110743f))
  EACH(p, p[i] * square[i] + q[i])
  EACH(shifted, p[i] * bounded[i] + shift)
  EACH(p, p[i] * bounded[i] - (shifted[i] - shift))
  EACH(square, p[i] * p[i])
  vf* const e = bounded;
  EACH(e, vset(0.000670014182f) * p[i] + vset(0.00480900286f))
  EACH(e, vset(7.73794818e-05f) * square[i] + e[i])
  EACH(q, vset(0.0277516395f) * p[i] + vset(0.120113254f))
  EACH(e, e[i] * square[i] + q[i])
  EACH(q, vset(0.346573591f) * p[i] + vset(0.5f))
  EACH(e, e[i] * square[i] + q[i])
  EACH(e, vselect(vless(most, size[i]), vset(0.0f), (vf)((vu)e[i] + ((vu)shifted[i] << 23))))
  // Infinity is as eager has it: times nothing it is NaN below 0, and itself above, where a bound keeps it out.
  EACH(x, vfloor_at(x[i], vset(0.0f)) - vabs(vceil_at(x[i], vset(100.0f))) * e[i])
}

#undef EACH

INLINE vf vgelu(vf x) {
  vgelu_all(&x, 1);
  return x;
}

INLINE vf vgelu_tanh(vf x) {
  const vf inner = vset(0.7978845608028654f) * (x + vset(0.044715f) * x * x * x);
  return vset(0.5f) * x * (vset(1.0f) + vtanh(inner));
}

INLINE vf vhardsigmoid(vf x) { return vclamp(x + vset(3.0f), 0.0f, 6.0f) * vset(1.0f / 6); }

INLINE vf vhardswish(vf x) { return x * vhardsigmoid(x); }

// log(m · 2^e) = e · ln 2 + log(1 + f), m between √½ and √2; P is a least-squares fit.
INLINE vf vlog(vf x) {
  const vm tiny = vless(x, vset(1.17549435e-38f)) & vless(vset(0.0f), x);
  const vf normal = vselect(tiny, x * vset(8388608.0f), x);
  const vi bits = (vi)((vu)normal - (vu)viset(0x3f3504f3));  // √½
  const vi e = bits >> 23;
  const vf f = (vf)((bits & viset(0x007fffff)) + viset(0x3f3504f3)) - vset(1.0f);
  const vf power = __builtin_convertvector(e, vf) - vselect(tiny, vset(23.0f), vset(0.0f));
  vf p = vset(-0.0810155837f);
  p = p * f + vset(0.127123077f);
  p = p * f - vset(0.12972239f);
  p = p * f + vset(0.142021738f);
  p = p * f - vset(0.166422476f);
  p = p * f + vset(0.200014686f);
  p = p * f - vset(0.250002965f);
  p = p * f + vset(0.333333286f);
  const vf square = f * f;
  const vf low = power * vset(-2.12194440e-4f) + (square * f * p - square * vset(0.5f));
  const vf found = f + low + power * vset(0.693359375f);
  const vf edge = vselect(vsame(x, vset(0.0f)), vset(-INFINITY), vselect(vless(x, vset(0.0f)), vset(NAN), x));
  return vselect(vless(vset(0.0f), x) & vless(x, vset(INFINITY)), found, edge);
}
