// Which kernels this processor can run. ATALLA_ALL_SETS, for tests, takes it for granted that it can run what was
// built.
#include <string.h>

#include "internal.h"

#if defined(__x86_64__)
static bool has(const at_kernels* kernels) {
#if defined(ATALLA_ALL_SETS)
  return kernels != NULL;
#else
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (kernels == &at_kernels_avx512) return avx2 && __builtin_cpu_supports("avx512f");
  return kernels == &at_kernels_base || avx2;
#endif
}
#endif

const at_kernels* at_choose(const char* name) {
#if defined(__x86_64__)
  static const at_kernels* const sets[] = {&at_kernels_avx512, &at_kernels_avx2};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; ++i) {
    if ((!name || strcmp(name, sets[i]->name) == 0) && has(sets[i])) return sets[i];
  }
#endif
  return !name || strcmp(name, "base") == 0 ? &at_kernels_base : NULL;
}
