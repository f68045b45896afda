// GATHER and SCATTER: rows of a table by their numbers; tables, and what is taken from them, lie densely.
#pragma once

#include <stdatomic.h>

#include "vec.h"
#include "walk.h"

typedef struct {
  const at_call* call;
  size_t count, each, bytes;  // indices; those, or the rows, of an item; bytes of a row
  atomic_int status;
} row_job;

// The index of that number, in the order of its dims.
INLINE int64_t row_number(const at_view* index, size_t number) {
  int64_t offset = 0;
  for (unsigned d = index->rank; d-- > 0;) {
    offset += (int64_t)(number % (size_t)index->dim[d]) * index->stride[d];
    number /= (size_t)index->dim[d];
  }
  return load_whole(index->data + offset * (int64_t)at_size(index->dtype), index->dtype);
}

// Whether the indices lie behind each other.
INLINE int are_neighbours(const at_view* index) {
  int64_t step = 1;
  for (unsigned d = index->rank; d-- > 0;) {
    if (index->dim[d] != 1 && index->stride[d] != step) return 0;
    step *= index->dim[d];
  }
  return 1;
}

INLINE void copy_bytes(char* to, const char* from, size_t bytes) {
  if (bytes == 4) {
    memcpy(to, from, 4);
  } else if (bytes == 8) {
    memcpy(to, from, 8);
  } else {
    memcpy(to, from, bytes);
  }
}

static void gather_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  row_job* job = argument;
  const at_view *dst = &job->call->dst, *table = &job->call->src[0], *index = &job->call->src[1];
  const size_t first = item * job->each, last = first + job->each < job->count ? first + job->each : job->count;
  const int64_t* plain =
      index->dtype == AT_I64 && are_neighbours(index) ? (const int64_t*)(const void*)index->data : NULL;
  for (size_t i = first; i < last; ++i) {
    const int64_t row = plain ? plain[i] : row_number(index, i);
    if (row < 0 || row >= table->dim[0]) {
      atomic_store_explicit(&job->status, ATALLA_BAD_INDEX, memory_order_relaxed);
      return;
    }
    copy_bytes(dst->data + i * job->bytes, table->data + (size_t)row * job->bytes, job->bytes);
  }
}

// A table of 256 bytes, and bytes behind each other that choose from it: none of them is out of bounds.
INLINE int is_table(const at_call* call) {
  const at_view *table = &call->src[0], *index = &call->src[1];
  const int is_whole = table->rank == 1 && table->dim[0] == 256 && at_size(table->dtype) == 1;
  return is_whole && index->dtype == AT_U8 && are_neighbours(index);
}

#if defined(__AVX512F__) && defined(__x86_64__)
// Sixty-four at once, as many times as they fill; returns how many were done. Two registers hold half of the table.
static __attribute__((target("avx512f,avx512bw,avx512vbmi"))) size_t look_up_fast(const uint8_t* table,
                                                                                  const uint8_t* at, uint8_t* to,
                                                                                  size_t count) {
  const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64);
  const __m512i c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
  size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i x = _mm512_loadu_si512(at + i);
    const __m512i low = _mm512_permutex2var_epi8(a, x, b), high = _mm512_permutex2var_epi8(c, x, d);
    _mm512_storeu_si512(to + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
  }
  return i;
}
#elif defined(__AVX2__)
// Thirty-two at once. A shuffle chooses from sixteen by the lower half of a byte, and writes 0 where it is negative. So
// each sixteen are kept as their XOR with those before, and all that are not above a byte together give its own.
static size_t look_up_fast(const uint8_t* table, const uint8_t* at, uint8_t* to, size_t count) {
  enum { PARTS = 16 };
  __m256i part[PARTS];
  for (int p = 0; p < PARTS; ++p) {
    part[p] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)(const void*)(table + 16 * p)));
  }
  for (int p = PARTS; --p > 0;) part[p] = p == PARTS / 2 ? part[p] : _mm256_xor_si256(part[p], part[p - 1]);
  size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i x = _mm256_loadu_si256((const __m256i*)(const void*)(at + i));
    __m256i low = x, high = _mm256_xor_si256(x, _mm256_set1_epi8(-128)), made = _mm256_setzero_si256();
    _Pragma("GCC unroll 8") for (int p = 0; p < PARTS / 2; ++p) {
      made = _mm256_xor_si256(made, _mm256_shuffle_epi8(part[p], low));
      made = _mm256_xor_si256(made, _mm256_shuffle_epi8(part[PARTS / 2 + p], high));
      low = _mm256_subs_epi8(low, _mm256_set1_epi8(16));
      high = _mm256_subs_epi8(high, _mm256_set1_epi8(16));
    }
    _mm256_storeu_si256((__m256i*)(void*)(to + i), made);
  }
  return i;
}
#endif

static void look_up_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const row_job* job = argument;
  const uint8_t *table = (const uint8_t*)job->call->src[0].data, *at = (const uint8_t*)job->call->src[1].data;
  uint8_t* to = (uint8_t*)job->call->dst.data;
  const size_t first = item * job->each, last = first + job->each < job->count ? first + job->each : job->count;
  size_t i = first;
#if defined(__AVX512F__) && defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vbmi")) i += look_up_fast(table, at + first, to + first, last - first);
#elif defined(__AVX2__)
  i += look_up_fast(table, at + first, to + first, last - first);
#endif
  for (; i < last; ++i) to[i] = table[at[i]];
}

static int gather(const at_call* call) {
  const size_t elements = at_elements(&call->dst);
  row_job job = {.call = call, .count = at_elements(&call->src[1])};
  if (!job.count || !elements) return 0;
  const size_t length = elements / job.count;
  job.bytes = length * at_size(call->dst.dtype);
  job.each = at_pool_threads(call->pool) > 1 ? (WORTH_AN_ITEM + length - 1) / length : job.count;
  if (job.each > job.count) job.each = job.count;
  at_pool_run(call->pool, (job.count + job.each - 1) / job.each, is_table(call) ? look_up_item : gather_item, &job);
  return atomic_load_explicit(&job.status, memory_order_relaxed);
}

#define COMBINE(TYPE, ADDED, MULTIPLIED)                            \
  do {                                                              \
    TYPE* to = (TYPE*)(void*)dst;                                   \
    const TYPE* of = (const TYPE*)(const void*)update;              \
    for (size_t i = 0; i < length; ++i) {                           \
      const TYPE a = to[i], b = of[i];                              \
      if (kind == AT_SCATTER_ADD) to[i] = (ADDED);                  \
      if (kind == AT_SCATTER_MUL) to[i] = (MULTIPLIED);             \
      if (kind == AT_SCATTER_MIN) to[i] = a != a || a <= b ? a : b; \
      if (kind == AT_SCATTER_MAX) to[i] = a != a || a >= b ? a : b; \
    }                                                               \
  } while (0)

// One row: what overflows wraps around; NaN stays.
static void scatter_row(int64_t kind, uint8_t dtype, char* dst, const char* update, size_t length) {
  if (kind == AT_SCATTER_SET) {
    copy_bytes(dst, update, length * at_size(dtype));
  } else if (dtype == AT_F32) {
    COMBINE(float, a + b, a * b);
  } else if (dtype == AT_I64) {
    COMBINE(int64_t, (int64_t)((uint64_t)a + (uint64_t)b), (int64_t)((uint64_t)a * (uint64_t)b));
  } else {
    COMBINE(int32_t, (int32_t)((uint32_t)a + (uint32_t)b), (int32_t)((uint32_t)a * (uint32_t)b));
  }
}

#undef COMBINE

// Some rows of dst: every item looks at all indices, in order, and takes its own.
static void scatter_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  row_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *index = &call->src[1], *update = &call->src[2];
  const int64_t first = (int64_t)(item * job->each), last = first + (int64_t)job->each;
  const size_t length = job->bytes / at_size(dst->dtype);
  const int64_t* plain =
      index->dtype == AT_I64 && are_neighbours(index) ? (const int64_t*)(const void*)index->data : NULL;
  for (size_t i = 0; i < job->count; ++i) {
    const int64_t row = plain ? plain[i] : row_number(index, i);
    if (row < 0 || row >= dst->dim[0]) {
      atomic_store_explicit(&job->status, ATALLA_BAD_INDEX, memory_order_relaxed);
      return;
    }
    if (row < first || row >= last) continue;
    scatter_row(call->words[AT_SCATTER_KIND], dst->dtype, dst->data + (size_t)row * job->bytes,
                update->data + i * job->bytes, length);
  }
}

static int scatter(const at_call* call) {
  const at_view* dst = &call->dst;
  if (at_elements(dst) == 0) return 0;
  const int status = call->src[0].data == dst->data ? 0 : copy(call);  // a state is changed in place
  row_job job = {.call = call, .count = at_elements(&call->src[1])};
  if (status != 0 || !job.count) return status;
  const size_t rows = (size_t)dst->dim[0], threads = at_pool_threads(call->pool);
  job.bytes = at_elements(dst) / rows * at_size(dst->dtype);
  job.each = at_elements(&call->src[2]) > WORTH_AN_ITEM ? (rows + threads - 1) / threads : rows;
  at_pool_run(call->pool, (rows + job.each - 1) / job.each, scatter_item, &job);
  return atomic_load_explicit(&job.status, memory_order_relaxed);
}
