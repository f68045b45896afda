// What is fastest on which processor, by what was measured: benchmarks/atalla_choices.py. No choice changes a bit.
#pragma once

#include "vec.h"

// Whether this is AVX-512 on Intel's or Zen 4.
INLINE int is_intel_or_zen4(void) {
#if VL == 16
  return __builtin_cpu_is("intel") || __builtin_cpu_is("amdfam19h");
#else
  return 0;
#endif
}

// Whether one row's weights are asked for before they are read; Zen 5 foresees them by itself, and faster.
INLINE int asks_ahead(void) {
#if VL == 16 && defined(ATALLA_ASKS_AHEAD)
  return ATALLA_ASKS_AHEAD;
#else
  return VL != 16 || is_intel_or_zen4();
#endif
}

// Whether tiles of three vectors are the fastest.
INLINE int by_threes(void) {
#if VL == 16 && defined(ATALLA_BY_THREES)
  return ATALLA_BY_THREES;
#else
  return is_intel_or_zen4();
#endif
}

// Whether a tile asks for the rows that it will write. With AVX2 that pays on Zen 2, and not on Zen 3.
INLINE int fetches_rows(void) {
#if VL == 8 && defined(ATALLA_FETCHES_ROWS)
  return ATALLA_FETCHES_ROWS;
#elif VL == 8
  return __builtin_cpu_is("amdfam17h");
#else
  return VL == 16;
#endif
}
