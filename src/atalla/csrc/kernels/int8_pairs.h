// Sums of products of int8 with AVX2: both numbers become 16 bits, and a lane is the sum of two neighbours' products.
#pragma once

#define WIDENS
enum { FEW = 3, ROOM_STEP = 2 * STEP_BYTES };

INLINE size_t widened_bytes(size_t steps) { return steps * ROOM_STEP; }

// A panel whose weights have 16 bits: those of two steps of the depth are a lane, first all columns' first two. Few
// rows are not worth it.
static void widen(deep_panels* p, size_t rows, char* room) {
  p->next = (uintptr_t)p->weight + p->steps * STEP_BYTES;
  p->widened = rows > FEW ? room : NULL;
  if (!p->widened) return;
  const __m128i halves = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const int8_t* w = p->weight;
  for (size_t step = 0; step < p->steps; ++step, w += STEP_BYTES, room += ROOM_STEP) {
    _Pragma("GCC unroll 2") for (int c = 0; c < 2; ++c) {
      const __m128i* from = (const __m128i*)(const void*)(w + 32 * c);
      const __m128i a = _mm_shuffle_epi8(_mm_loadu_si128(from), halves);  // of 4 columns: first, then last neighbours
      const __m128i b = _mm_shuffle_epi8(_mm_loadu_si128(from + 1), halves);
      const __m256i first = _mm256_cvtepi8_epi16(_mm_unpacklo_epi64(a, b));
      const __m256i last = _mm256_cvtepi8_epi16(_mm_unpackhi_epi64(a, b));
      _mm256_storeu_si256((__m256i*)(void*)(room + 32 * c), first);
      _mm256_storeu_si256((__m256i*)(void*)(room + STEP_BYTES + 32 * c), last);
    }
  }
}

// Bytes of the next panel that each step of a tile asks for, where so many tiles read a panel.
INLINE size_t share_of(size_t tiles) { return (STEP_BYTES / 2 + tiles - 1) / tiles; }

// Two neighbours of a row by those of 16 columns. Compilers would not find registers for all sums.
INLINE void add_pairs(__m256i* low, __m256i* high, const packed* two, __m256i weights_low, __m256i weights_high) {
  __m256i x, product, a = *low, b = *high;
  __asm__(
      "vpbroadcastd %4, %2\n\t"
      "vpmaddwd %5, %2, %3\n\t"
      "vpaddd %3, %0, %0\n\t"
      "vpmaddwd %6, %2, %2\n\t"
      "vpaddd %2, %1, %1"
      : "+x"(a), "+x"(b), "=&x"(x), "=&x"(product)
      : "m"(*(const int32_t (*)[1])(const void*)two), "x"(weights_low), "x"(weights_high));
  *low = a;
  *high = b;
}

INLINE void widened_tile(const int rows, const packed* a, size_t pitch, deep_panels* p, const finishing* f,
                         int32_t* sums) {
  __m256i acc[HIGH][2];
  const __m256i* start = (const __m256i*)(const void*)p->start;
  _Pragma("GCC unroll 6") for (int r = 0; r < rows; ++r) {
    acc[r][0] = _mm256_loadu_si256(start);
    acc[r][1] = _mm256_loadu_si256(start + 1);
  }
  const packed* row[HIGH];
  _Pragma("GCC unroll 6") for (int r = 0; r < rows; ++r) row[r] = a + (size_t)r * pitch;
  const char* w = p->widened;
  uintptr_t next = p->next;
  for (size_t k = 0; k < p->steps * AT_QUAD; k += 2, w += STEP_BYTES, next += p->share) {
    __builtin_prefetch((const void*)next, 0, 2);
    const __m256i low = _mm256_loadu_si256((const __m256i*)(const void*)w);
    const __m256i high = _mm256_loadu_si256((const __m256i*)(const void*)(w + 32));
    _Pragma("GCC unroll 6") for (int r = 0; r < rows; ++r) add_pairs(&acc[r][0], &acc[r][1], row[r] + k, low, high);
  }
  p->next = next;
  if (!f) {
    _Pragma("GCC unroll 6") for (int r = 0; r < rows; ++r) {
      _mm256_storeu_si256((__m256i*)(void*)(sums + r * SUMS), acc[r][0]);
      _mm256_storeu_si256((__m256i*)(void*)(sums + r * SUMS + VL), acc[r][1]);
    }
    return;
  }
  const finishing own = *f;  // which no store can change
  const vf scale[2] = {vload(own.scale), vload(own.scale + VL)};
  const vf offset[2] = {vload(own.offset), vload(own.offset + VL)};
  _Pragma("GCC unroll 3") for (int r = 0; r < rows; r += 2) {
    const int below = r + 1 < rows ? r + 1 : r;
    vf made[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; ++i) {
      made[i] = finished(&own, (vi)acc[i < 2 ? r : below][i % 2], scale[i % 2], offset[i % 2]);
    }
    int8_t* out = (int8_t*)own.out;
    vstore_int8_twice(out + own.at[r], made[0], made[1], out + own.at[below], made[2], made[3]);
  }
}

// The same for few rows, from the panel itself: a lane holds half of a column's sum, a product of two pairs.
INLINE void narrow_tile(const int rows, const packed* a, size_t pitch, const deep_panels* p, int32_t* sums) {
  __m256i acc[FEW][4];
  _Pragma("GCC unroll 3") for (int r = 0; r < rows; ++r) {
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; ++c) acc[r][c] = _mm256_setzero_si256();
  }
  const int8_t* w = p->weight;
  for (size_t step = 0; step < p->steps; ++step, w += STEP_BYTES, a += AT_QUAD) {
    __m256i x[FEW];
    _Pragma("GCC unroll 3") for (int r = 0; r < rows; ++r) {
      int64_t four;
      memcpy(&four, a + (size_t)r * pitch, sizeof four);
      x[r] = _mm256_set1_epi64x(four);
    }
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; ++c) {
      const __m256i weights = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(const void*)(w + 16 * c)));
      _Pragma("GCC unroll 3") for (int r = 0; r < rows; ++r) {
        acc[r][c] = _mm256_add_epi32(acc[r][c], _mm256_madd_epi16(x[r], weights));
      }
    }
  }
  _Pragma("GCC unroll 3") for (int r = 0; r < rows; ++r) {
    _Pragma("GCC unroll 2") for (int c = 0; c < 4; c += 2) {
      const __m256i halves = _mm256_hadd_epi32(acc[r][c], acc[r][c + 1]);
      const __m256i whole = _mm256_permute4x64_epi64(halves, 0xd8);
      const __m256i start = _mm256_loadu_si256((const __m256i*)(const void*)(p->start + 4 * c));
      _mm256_storeu_si256((__m256i*)(void*)(sums + r * SUMS + 4 * c), _mm256_add_epi32(whole, start));
    }
  }
}

#define EACH_PAIRS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define DEFINE_PAIRS(ROWS)                                                                          \
  static __attribute__((noinline)) void pairs_##ROWS(const packed* a, size_t pitch, deep_panels* p, \
                                                     const finishing* f, int32_t* sums) {           \
    widened_tile(ROWS, a, pitch, p, f, sums);                                                       \
  }
EACH_PAIRS(DEFINE_PAIRS)
#undef DEFINE_PAIRS
#define NAME_PAIRS(ROWS) [ROWS] = pairs_##ROWS,
static void (*const PAIRS[HIGH + 1])(const packed*, size_t, deep_panels*, const finishing*,
                                     int32_t*) = {EACH_PAIRS(NAME_PAIRS)};
#undef NAME_PAIRS

static void sum_tile(size_t rows, size_t high, const packed* a, size_t pitch, deep_panels* p, int32_t* sums) {
  (void)high;
  if (p->widened) {
    PAIRS[rows](a, pitch, p, NULL, sums);
  } else if (rows == 1) {
    narrow_tile(1, a, pitch, p, sums);
  } else if (rows == 2) {
    narrow_tile(2, a, pitch, p, sums);
  } else {
    narrow_tile(3, a, pitch, p, sums);
  }
}

// Makes int8 of sums that are still in registers; whether it does.
INLINE int make_tile(size_t rows, const packed* a, size_t pitch, deep_panels* p, const finishing* f) {
  if (!p->widened) return 0;
  PAIRS[rows](a, pitch, p, f, NULL);
  return 1;
}
