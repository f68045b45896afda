// Products that are rounded before they are added to anything, so that all instruction sets give the same bits.
#pragma once

#include "vec.h"

// What the compiler must take for a value that somebody else made: in a register, where one holds a whole vector.
#if defined(__x86_64__) && (VL == 4 || (VL == 8 && defined(__AVX__)) || (VL == 16 && defined(__AVX512F__)))
#define KEPT "+v"
#elif defined(__aarch64__) && VL == 4
#define KEPT "+w"
#else
#define KEPT "+m"
#endif

// `a · b`: no compiler makes one instruction of it and a sum.
INLINE vf vrounded(vf a, vf b) {
  vf product = a * b;
  __asm__("" : KEPT(product));
  return product;
}

INLINE float rounded(float a, float b) {
  float product = a * b;
  __asm__("" : KEPT(product));
  return product;
}
