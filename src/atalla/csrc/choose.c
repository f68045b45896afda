// Which kernels this processor can run.
#include <string.h>

#include "internal.h"

static bool has_avx2(void) {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

const at_kernels* at_choose(const char* name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_avx2() && (!name || strcmp(name, "avx2") == 0)) return &at_kernels_avx2;
#else
  (void)has_avx2;
#endif
  return !name || strcmp(name, "base") == 0 ? &at_kernels_base : NULL;
}
