// Kernels for AVX2 and FMA: vectors of 8 floats, sixteen registers.
#define VL 8
#define NAME avx2
#include "kernels/template.h"
