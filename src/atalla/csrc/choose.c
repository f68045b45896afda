// Which kernels this processor can run, of those that were built: ATALLA_NO_AVX2 and ATALLA_NO_AVX512 say which were
// not, and so on. ATALLA_ALL_SETS, for tests, takes it for granted that it can run all.
#include <string.h>

#include "internal.h"
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__) && !defined(ATALLA_ALL_SETS)
static bool has_vnni(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

// The system lets a process use the tiles' registers when it asks for them.
static bool has_amx(void) {
#if defined(__linux__)
  enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25, AVX512_BF16 = 1 << 5 };
  enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18, ALL = AMX_BF16 | AMX_TILE | AMX_INT8 };
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & ALL) != ALL) return false;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & AVX512_BF16)) return false;
  return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
#else
  return false;
#endif
}
#endif

static bool has(const at_kernels* kernels) {
#if defined(__x86_64__) && !defined(ATALLA_ALL_SETS)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (strcmp(kernels->name, "avx512") == 0) return avx2 && __builtin_cpu_supports("avx512f");
  if (strcmp(kernels->name, "avx2") == 0) return avx2;
  if (strcmp(kernels->name, "vnni") == 0) return avx2 && has_vnni();
  if (strcmp(kernels->name, "amx") == 0) return avx2 && has_vnni() && has_amx();
#endif
  return kernels != NULL;
}

// The best comes first.
static const at_kernels* const sets[] = {
#if defined(__x86_64__) && !defined(ATALLA_NO_AMX)
    &at_kernels_amx,
#endif
#if defined(__x86_64__) && !defined(ATALLA_NO_VNNI)
    &at_kernels_vnni,
#endif
#if defined(__x86_64__) && !defined(ATALLA_NO_AVX512)
    &at_kernels_avx512,
#endif
#if defined(__x86_64__) && !defined(ATALLA_NO_AVX2)
    &at_kernels_avx2,
#endif
    &at_kernels_base,
};
enum { SETS = sizeof sets / sizeof *sets };

const at_kernels* at_choose(const char* name) {
  for (size_t i = 0; i < SETS; ++i) {
    if ((!name || strcmp(name, sets[i]->name) == 0) && has(sets[i])) return sets[i];
  }
  return NULL;
}

const at_kernels* at_kernels_with(const at_kernels* chosen, uint16_t op) {
  size_t i = 0;
  while (sets[i] != chosen) ++i;
  while (i + 1 < SETS && !sets[i]->run[op]) ++i;
  return sets[i];
}
