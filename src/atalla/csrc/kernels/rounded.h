// Products that are rounded before they are added to anything, so that all instruction sets give the same bits.
#pragma once

#include "vec.h"

#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ROUNDED(VALUE) __builtin_assoc_barrier(VALUE)
#endif
#endif

// `a · b`: no compiler makes one instruction of it and a sum.
INLINE vf vrounded(vf a, vf b) {
#ifdef ROUNDED
  return ROUNDED(a * b);
#else
  vf product = a * b;
  __asm__("" : "+m"(product));
  return product;
#endif
}

INLINE float rounded(float a, float b) {
#ifdef ROUNDED
  return ROUNDED(a * b);
#else
  float product = a * b;
  __asm__("" : "+m"(product));
  return product;
#endif
}
