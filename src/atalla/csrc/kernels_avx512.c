// Kernels for AVX-512: vectors of 16 floats, thirty-two registers.
#define VL 16
#define NAME avx512
#include "kernels/template.h"
