// Which kernels this processor can run, of those that were built: ATALLA_NO_AVX2 and ATALLA_NO_AVX512 say which were
// not. ATALLA_ALL_SETS, for tests, takes it for granted that it can run all.
#include <string.h>

#include "internal.h"

static bool has(const at_kernels* kernels) {
#if defined(__x86_64__) && !defined(ATALLA_ALL_SETS)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (strcmp(kernels->name, "avx512") == 0) return avx2 && __builtin_cpu_supports("avx512f");
  if (strcmp(kernels->name, "avx2") == 0) return avx2;
#endif
  return kernels != NULL;
}

const at_kernels* at_choose(const char* name) {
  static const at_kernels* const sets[] = {
#if defined(__x86_64__) && !defined(ATALLA_NO_AVX512)
      &at_kernels_avx512,
#endif
#if defined(__x86_64__) && !defined(ATALLA_NO_AVX2)
      &at_kernels_avx2,
#endif
      &at_kernels_base,
  };
  for (size_t i = 0; i < sizeof sets / sizeof *sets; ++i) {
    if ((!name || strcmp(name, sets[i]->name) == 0) && has(sets[i])) return sets[i];
  }
  return NULL;
}
