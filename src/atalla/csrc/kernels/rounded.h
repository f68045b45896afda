// Products that are rounded before they are added to anything, so that all instruction sets give the same bits.
#pragma once

#include "vec.h"

// What the compiler must take for a value that somebody else made.
#if defined(__x86_64__)
#define KEPT "+v"
#elif defined(__aarch64__)
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
