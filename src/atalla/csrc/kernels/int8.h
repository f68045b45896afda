// QGEMM and QCONV2D: rows of int8 are packed one behind the other, and multiplied by panels of quads. Sums are whole
// numbers, and what is made of them is rounded at every operation: all processors give the same bits.
#pragma once

#include "int8_tile.h"
#include "narrow.h"
#include "rounded.h"

typedef struct {
  packed_job rows;
  int64_t zero;
  float low, high;
} int8_job;

INLINE int8_job int8_job_of(const at_call* call, const int64_t* made) {
  int8_job job = {.rows = packed_job_of(call, made == call->words + AT_QCONV2D_ZERO, 1), .zero = made[0]};
  job.low = (float)at_number(made[1]);
  job.high = (float)at_number(made[2]);
  job.rows.pitch = rounded_up(job.rows.taps * job.rows.depth, ROUND) * sizeof(packed);
  return job;
}

INLINE char* put_int8(const packed_job* rows, char* at, const char* from, int64_t step, size_t count) {
  packed* to = (packed*)(void*)at;
  if (!from) {
    const int64_t zero = ((const int8_job*)(const void*)rows)->zero;  // of which they are the first part
    for (size_t i = 0; i < count; ++i) to[i] = (packed)(zero + FLIP);
    return (char*)(to + count);
  }
#if defined(__AVX512BW__)
  if (step == 1) {
    const __m512i flip = _mm512_set1_epi8((char)FLIP);
    size_t i = 0;
    for (; i + 64 <= count; i += 64) _mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), flip));
    const __mmask64 rest = ((__mmask64)1 << (count - i)) - 1;
    if (rest) _mm512_mask_storeu_epi8(to + i, rest, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, from + i), flip));
    return (char*)(to + count);
  }
#endif
  const int8_t* numbers = (const int8_t*)from;
#if defined(WIDENS)
  if (step == 1 && count >= 16) {
    for (size_t i = 0; i < count; i += 16) {
      const size_t at16 = i + 16 <= count ? i : count - 16;
      const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(const void*)(numbers + at16)));
      _mm256_storeu_si256((__m256i*)(void*)(to + at16), wide);
    }
    return (char*)(to + count);
  }
#endif
  if (step == 1) {
    for (size_t i = 0; i < count; ++i) to[i] = (packed)(numbers[i] + FLIP);
  } else {
    for (size_t i = 0; i < count; ++i) to[i] = (packed)(numbers[(int64_t)i * step] + FLIP);
  }
  return (char*)(to + count);
}

// Rows that lie in memory as packed ones would: pixels behind each other, each a whole number of ROUND bytes.
INLINE const char* rows_in_place(const packed_job* job, size_t first, size_t rows) {
  if (sizeof(packed) != 1 || FLIP != 0 || job->taps != 1 || job->depth % ROUND || rows % high_of(rows)) return NULL;
  const at_call* call = job->call;
  const at_view *src = &call->src[0], *dst = &call->dst;
  const int64_t* words = call->words;
  if (job->is_conv) {
    const int is_whole = job->groups == 1 && words[AT_QCONV2D_STRIDE_H] == 1 && words[AT_QCONV2D_STRIDE_W] == 1 &&
                         words[AT_QCONV2D_TOP] == 0 && words[AT_QCONV2D_LEFT] == 0 && dst->dim[2] == src->dim[2] &&
                         dst->dim[3] == src->dim[3];
    if (!is_whole) return NULL;
  }
  const way from = job->is_conv ? pixels_of(src, src, 1, 1) : way_of(src);
  const unsigned last = from.rank - 1;
  if (from.rank == 0 || !is_even(&from) || from.stride[last] != (int64_t)job->pitch) return NULL;
  return src->data + (int64_t)first * from.stride[last];
}

static void pack_int8(const int8_job* job, size_t group, size_t first, size_t rows, char* a) {
  if (job->rows.is_conv) {
    pack_pixels(&job->rows, put_int8, sizeof(packed), group, first, rows, a);
  } else {
    pack_rows(&job->rows, put_int8, first, rows, a);
  }
}

// Whole numbers that sums of some panels begin with: what the zero point adds to each column, and what FLIP does.
INLINE void find_start(const int8_job* job, size_t first, size_t count, size_t panels, int32_t* start) {
  const int32_t* sums = (const int32_t*)(const void*)job->rows.call->src[2].data + first;
  const uint32_t factor = 0u - (uint32_t)(job->zero + FLIP);
  for (size_t c = 0; c < panels * AT_PANEL; ++c) start[c] = c < count ? (int32_t)(factor * (uint32_t)sums[c]) : 0;
}

// Sums become what they stand for.
INLINE void finish_sums(const finishing* f, size_t rows, size_t count, const int32_t* sums) {
  for (size_t c = 0; c < count; c += VL) {
    const size_t here = count - c < VL ? count - c : VL;
    const vf scale = here == VL ? vload(f->scale + c) : vload_part(f->scale + c, here);
    const vf offset = here == VL ? vload(f->offset + c) : vload_part(f->offset + c, here);
    for (size_t r = 0; r < rows; ++r) {
      const vf made = finished(f, *(const vi*)(sums + r * SUMS + c), scale, offset);
      int8_t* bytes = (int8_t*)f->out + f->at[r] + c;
      float* floats = (float*)(void*)f->out + f->at[r] + c;
      if (f->is_int8) {
        here == VL ? vstore_int8(bytes, made) : vstore_int8_part(bytes, made, here);
      } else {
        here == VL ? vstore(floats, made) : vstore_part(floats, made, here);
      }
    }
  }
}

INLINE size_t quads_of(const packed_job* job) { return (job->taps * job->depth + AT_QUAD - 1) / AT_QUAD; }

// Of the rows that are packed; a panel may lie behind them.
INLINE unsigned __int128 packed_bytes(const int8_job* job) {
  const unsigned __int128 rows = packed_rows(&job->rows, TILE_STEP) + HIGH;
  return (rows * job->rows.pitch + AT_LINE - 1) / AT_LINE * AT_LINE;
}

static size_t int8_scratch(const int8_job* job) {
  return at_bytes(packed_bytes(job) + widened_bytes(quads_of(&job->rows)) + AT_LINE);
}

static void int8_item(void* argument, size_t item, unsigned thread) {
  const int8_job* job = argument;
  const packed_job* all = &job->rows;
  const at_call* call = all->call;
  const packed_item of_job = item_of(all, item);
  const size_t group = of_job.group, first = of_job.first, rows = of_job.rows, last = of_job.last;
  int64_t at[MOST_PACKED_ROWS];
  find_places(all, &call->dst, first, rows, at);
  char* room = call->scratch + thread * call->scratch_bytes;
  const char* a = rows_in_place(all, first, rows);
  if (!a) {
    pack_int8(job, group, first, rows, room);
    a = room;
  }
  const size_t quads = quads_of(all), high = high_of(rows), share = share_of((rows + high - 1) / high);
  const int8_t* weight = (const int8_t*)call->src[1].data + group * all->cut.panels * quads * STEP_BYTES;
  int8_t tail[WIDE * TAIL_BYTES] __attribute__((aligned(64)));
  int32_t start[SUMS] __attribute__((aligned(64))), sums[HIGH * SUMS] __attribute__((aligned(64)));
  begin_tiles(rows);
  for (size_t panel = of_job.panel; panel < last;) {
    const size_t column = panel * AT_PANEL, panels = panels_at_once(last - panel, rows);
    const size_t left = all->columns - column, count = left < panels * AT_PANEL ? left : panels * AT_PANEL;
    const size_t first_column = group * all->columns + column;
    find_start(job, first_column, count, panels, start);
    deep_panels p = {.weight = weight + panel * quads * STEP_BYTES,
                     .panels = panels,
                     .steps = quads,
                     .start = start,
                     .share = share};
    find_tail(&p, tail);
    widen(&p, rows, room + (size_t)packed_bytes(job));
    finishing f = {.scale = (const float*)(const void*)call->src[3].data + first_column,
                   .offset = (const float*)(const void*)call->src[4].data + first_column,
                   .low = job->low,
                   .high = job->high,
                   .is_int8 = call->dst.dtype == AT_I8,
                   .out = call->dst.data + first_column * at_size(call->dst.dtype)};
    const int is_whole = f.is_int8 && count == panels * AT_PANEL;
    for (size_t r = 0; r < rows; r += high) {
      const size_t here = rows - r < high ? rows - r : high;
      const packed* from = (const packed*)(const void*)(a + r * all->pitch);
      f.at = at + r;
      if (is_whole && make_tile(here, from, all->pitch / sizeof(packed), &p, &f)) continue;
      sum_tile(here, high, from, all->pitch / sizeof(packed), &p, sums);
      finish_sums(&f, here, count, sums);
    }
    panel += panels;
  }
  end_tiles();
}

static int run_int8(const at_call* call, const int64_t* made) {
  if (at_elements(&call->dst) == 0) return 0;
  int8_job job = int8_job_of(call, made);
  cut_packed(&job.rows, TILE_STEP, WIDE);
  at_pool_run(call->pool, job.rows.items * job.rows.groups, int8_item, &job);
  return 0;
}

static int qgemm(const at_call* call) { return run_int8(call, call->words + AT_QGEMM_ZERO); }

static int qconv(const at_call* call) { return run_int8(call, call->words + AT_QCONV2D_ZERO); }

static size_t qgemm_need(const at_call* call) {
  const int8_job job = int8_job_of(call, call->words + AT_QGEMM_ZERO);
  return int8_scratch(&job);
}

static size_t qconv_need(const at_call* call) {
  const int8_job job = int8_job_of(call, call->words + AT_QCONV2D_ZERO);
  return int8_scratch(&job);
}
