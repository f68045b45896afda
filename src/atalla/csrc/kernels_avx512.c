// Kernels for AVX-512: vectors of 16 floats, tiles of 14 × 32.
#define VL 16
#define MR 14
#define NAME avx512
#include "kernels/template.h"
