// Kernels for whatever the compiler takes for granted: vectors of 4 floats, as SSE2 and NEON have.
#define VL 4
#define NAME base
#include "kernels/template.h"
