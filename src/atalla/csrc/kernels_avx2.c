// Kernels for AVX2 and FMA: vectors of 8 floats, tiles of 6 × 16.
#define VL 8
#define MR 6
#define NAME avx2
#include "kernels/template.h"
