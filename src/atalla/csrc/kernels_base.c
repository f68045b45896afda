// Kernels for whatever the compiler takes for granted: vectors of 4 floats, as SSE2 and NEON have.
#define VL 4
#if defined(__aarch64__)
#define MR 6
#else
#define MR 3
#endif
#define NAME base
#include "kernels/template.h"
