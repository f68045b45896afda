// QGEMM and QCONV2D: rows of int8 are packed one behind the other, and multiplied by panels of quads. Sums are whole
// numbers, and what is made of them is rounded at every operation: all processors give the same bits.
#pragma once

#include "cut.h"
#include "int8_tile.h"
#include "narrow.h"
#include "rounded.h"
#include "rows.h"

enum { MOST_INT8_ROWS = 256, LEAST_INT8_ROWS = 32, MOST_INT8_BYTES = 400 << 10 };

typedef struct {
  const at_call* call;
  cut cut;
  size_t groups, items;         // items of one group
  size_t columns, depth, taps;  // columns of a group, depth of a tap
  size_t pitch;                 // elements of a packed row
  int64_t zero;
  float low, high;
  int is_conv;
  int is_dense;  // the taps of a row of the filter are neighbours in memory
} int8_job;

INLINE size_t rounded_up(size_t count, size_t to) { return (count + to - 1) / to * to; }

INLINE size_t int8_rows(const int8_job* job) {
  const size_t most = MOST_INT8_BYTES / (job->pitch * sizeof(packed) + 1) / TILE_STEP * TILE_STEP;
  return most < LEAST_INT8_ROWS ? LEAST_INT8_ROWS : most > MOST_INT8_ROWS ? MOST_INT8_ROWS : most;
}

INLINE int8_job int8_job_of(const at_call* call, const int64_t* made) {
  const at_view *dst = &call->dst, *src = &call->src[0];
  int8_job job = {.call = call, .groups = 1, .taps = 1, .zero = made[0]};
  job.low = (float)at_number(made[1]);
  job.high = (float)at_number(made[2]);
  job.is_conv = made == call->words + AT_QCONV2D_ZERO;
  if (job.is_conv) {
    job.groups = (size_t)call->words[AT_QCONV2D_GROUPS];
    job.taps = (size_t)(call->words[AT_QCONV2D_KERNEL_H] * call->words[AT_QCONV2D_KERNEL_W]);
    const int is_row = call->words[AT_QCONV2D_KERNEL_W] == 1 || call->words[AT_QCONV2D_DILATION_W] == 1;
    job.is_dense = is_row && src->stride[1] == 1 && src->stride[3] == src->dim[1] && job.groups == 1;
  }
  const unsigned channels = job.is_conv ? 1 : dst->rank - 1u;
  job.columns = (size_t)dst->dim[channels] / job.groups;
  job.depth = (size_t)src->dim[channels] / job.groups;
  job.pitch = rounded_up(job.taps * job.depth, ROUND);
  return job;
}

// Numbers become elements of a packed row.
INLINE packed* put(packed* to, const int8_t* from, int64_t step, size_t count) {
#if defined(__AVX512BW__)
  if (step == 1) {
    const __m512i flip = _mm512_set1_epi8((char)FLIP);
    for (size_t i = 0; i < count; i += 64) {
      const __mmask64 here = count - i < 64 ? ((__mmask64)1 << (count - i)) - 1 : ~(__mmask64)0;
      _mm512_mask_storeu_epi8(to + i, here, _mm512_xor_si512(_mm512_maskz_loadu_epi8(here, from + i), flip));
    }
    return to + count;
  }
#endif
  if (step == 1) {
    for (size_t i = 0; i < count; ++i) to[i] = (packed)(from[i] + FLIP);
  } else {
    for (size_t i = 0; i < count; ++i) to[i] = (packed)(from[(int64_t)i * step] + FLIP);
  }
  return to + count;
}

INLINE packed* put_zeros(const int8_job* job, packed* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = (packed)(job->zero + FLIP);
  return to + count;
}

// The taps of one row of the filter; `line` is the image's row, `left` the column of the first tap.
INLINE packed* pack_line(const int8_job* job, packed* to, const int8_t* line, int64_t left) {
  const at_call* call = job->call;
  const at_view* src = &call->src[0];
  const int64_t kernel = call->words[AT_QCONV2D_KERNEL_W], dilation = call->words[AT_QCONV2D_DILATION_W];
  const int64_t depth = (int64_t)job->depth, wide = src->dim[3];
  if (job->is_dense) {
    if (left >= 0 && left + kernel <= wide) return put(to, line + left * depth, 1, (size_t)(kernel * depth));
    int64_t from = left < 0 ? -left : 0, to_tap = wide - left < kernel ? wide - left : kernel;
    if (from > kernel) from = kernel;
    if (to_tap < from) to_tap = from;
    to = put_zeros(job, to, (size_t)(from * depth));
    to = put(to, line + (left + from) * depth, 1, (size_t)((to_tap - from) * depth));
    return put_zeros(job, to, (size_t)((kernel - to_tap) * depth));
  }
  for (int64_t j = 0, column = left; j < kernel; ++j, column += dilation) {
    const int is_inside = column >= 0 && column < wide;
    to = is_inside ? put(to, line + column * src->stride[3], src->stride[1], job->depth)
                   : put_zeros(job, to, job->depth);
  }
  return to;
}

static void pack_pixels(const int8_job* job, size_t group, size_t first, size_t rows, packed* a) {
  const at_call* call = job->call;
  const at_view *src = &call->src[0], *dst = &call->dst;
  const int64_t *words = call->words, wide = dst->dim[3], high = dst->dim[2];
  const int8_t* whole = (const int8_t*)src->data + group * job->depth;
  const size_t taps = (size_t)words[AT_QCONV2D_KERNEL_W] * job->depth;  // elements of a row of the filter
  for (size_t done = 0; done < rows;) {                                 // pixels of one line of the output
    const int64_t pixel = (int64_t)(first + done), x = pixel % wide, y = pixel / wide % high, n = pixel / wide / high;
    const size_t count = (size_t)(wide - x) < rows - done ? (size_t)(wide - x) : rows - done;
    for (int64_t i = 0; i < words[AT_QCONV2D_KERNEL_H]; ++i) {
      const int64_t row = y * words[AT_QCONV2D_STRIDE_H] - words[AT_QCONV2D_TOP] + i * words[AT_QCONV2D_DILATION_H];
      const int8_t* line = whole + n * src->stride[0] + row * src->stride[2];
      packed* to = a + done * job->pitch + (size_t)i * taps;
      int64_t left = x * words[AT_QCONV2D_STRIDE_W] - words[AT_QCONV2D_LEFT];
      for (size_t r = 0; r < count; ++r, to += job->pitch, left += words[AT_QCONV2D_STRIDE_W]) {
        if (row < 0 || row >= src->dim[2]) {
          put_zeros(job, to, taps);
        } else {
          pack_line(job, to, line, left);
        }
      }
    }
    done += count;
  }
}

// Rows that lie in memory as packed ones would: pixels behind each other, each a whole number of ROUND bytes.
INLINE const packed* rows_in_place(const int8_job* job, size_t first, size_t rows) {
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
  return (const packed*)(const void*)(src->data + (int64_t)first * from.stride[last]);
}

static void pack_rows(const int8_job* job, size_t first, size_t rows, packed* a) {
  const at_view* src = &job->call->src[0];
  const way from = way_of(src);
  row_place place = place_of(&from, first);
  for (size_t r = 0; r < rows; ++r, next_row(&from, &place), a += job->pitch) {
    put(a, (const int8_t*)src->data + place.offset, 1, job->depth);
  }
}

// Whole numbers that sums begin with: what the zero point adds to each column, and what FLIP does.
INLINE void find_start(const int8_job* job, size_t first, size_t count, int32_t* start) {
  const int32_t* sums = (const int32_t*)(const void*)job->call->src[2].data + first;
  const uint32_t factor = 0u - (uint32_t)(job->zero + FLIP);
  for (size_t c = 0; c < SUMS; ++c) start[c] = c < count ? (int32_t)(factor * (uint32_t)sums[c]) : 0;
}

// Sums become what they stand for; `first` is the first column, `at` where each row of dst begins.
INLINE void finish_sums(const int8_job* job, size_t rows, size_t first, size_t count, const int32_t* sums,
                        const int64_t* at) {
  const at_view* dst = &job->call->dst;
  const float* scale = (const float*)(const void*)job->call->src[3].data + first;
  const float* offset = (const float*)(const void*)job->call->src[4].data + first;
  const vf low = vset(job->low), high = vset(job->high);
  const int is_int8 = dst->dtype == AT_I8;
  for (size_t c = 0; c < count; c += VL) {
    const size_t here = count - c < VL ? count - c : VL;
    const vf factor = here == VL ? vload(scale + c) : vload_part(scale + c, here);
    const vf summand = here == VL ? vload(offset + c) : vload_part(offset + c, here);
    for (size_t r = 0; r < rows; ++r) {
      const vf sum = __builtin_convertvector(*(const vi*)(sums + r * SUMS + c), vf);
      const vf made = vceil_at(vfloor_at(vrounded(sum, factor) + summand, low), high);
      const int64_t place = at[r] + (int64_t)(first + c);
      int8_t* bytes = (int8_t*)dst->data + place;
      float* floats = (float*)(void*)dst->data + place;
      if (is_int8) {
        here == VL ? vstore_int8(bytes, made) : vstore_int8_part(bytes, made, here);
      } else {
        here == VL ? vstore(floats, made) : vstore_part(floats, made, here);
      }
    }
  }
}

static size_t int8_scratch(const int8_job* job) {
  const unsigned __int128 rows = int8_rows(job) + HIGH;
  return at_bytes(rows * job->pitch * sizeof(packed) + AT_LINE);
}

static void int8_item(void* argument, size_t item, unsigned thread) {
  const int8_job* job = argument;
  const at_call* call = job->call;
  const size_t group = item / job->items, within = item % job->items, chunk = within % job->cut.chunks;
  const size_t first = within / job->cut.chunks * job->cut.block;
  const size_t rows = job->cut.rows - first < job->cut.block ? job->cut.rows - first : job->cut.block;
  const way to = job->is_conv ? pixels_of(&call->dst, &call->dst, 1, 1) : way_of(&call->dst);
  int64_t at[MOST_INT8_ROWS];
  row_place place = place_of(&to, first);
  for (size_t r = 0; r < rows; ++r, next_row(&to, &place)) at[r] = place.offset;
  packed* room = (packed*)(void*)(call->scratch + thread * call->scratch_bytes);
  const packed* a = rows_in_place(job, first, rows);
  if (!a) {
    job->is_conv ? pack_pixels(job, group, first, rows, room) : pack_rows(job, first, rows, room);
    a = room;
  }
  const size_t quads = (job->taps * job->depth + AT_QUAD - 1) / AT_QUAD, high = high_of(rows);
  const int8_t* weight = (const int8_t*)call->src[1].data + group * job->cut.panels * quads * QUAD_BYTES;
  const size_t last = (chunk + 1) * job->cut.chunk < job->cut.panels ? (chunk + 1) * job->cut.chunk : job->cut.panels;
  int8_t tail[WIDE * TAIL_BYTES] __attribute__((aligned(64)));
  int32_t start[SUMS] __attribute__((aligned(64))), sums[HIGH * SUMS] __attribute__((aligned(64)));
  begin_tiles(rows);
  for (size_t panel = chunk * job->cut.chunk; panel < last;) {
    const size_t column = panel * AT_PANEL, panels = panels_at_once(last - panel, rows);
    const size_t left = job->columns - column, count = left < panels * AT_PANEL ? left : panels * AT_PANEL;
    find_start(job, group * job->columns + column, count, start);
    quad_panels p = {weight + panel * quads * QUAD_BYTES, panels, quads, start, NULL};
    find_tail(&p, tail);
    for (size_t r = 0; r < rows; r += high) {
      const size_t here = rows - r < high ? rows - r : high;
      sum_tile(here, high, a + r * job->pitch, job->pitch, &p, sums);
      finish_sums(job, here, group * job->columns + column, count, sums, at + r);
    }
    panel += panels;
  }
  end_tiles();
}

static int run_int8(int8_job* job) {
  const at_call* call = job->call;
  const size_t elements = at_elements(&call->dst);
  if (elements == 0) return 0;
  const size_t rows = elements / (job->columns * job->groups);
  job->cut = cut_product(rows, job->columns, at_pool_threads(call->pool), int8_rows(job), TILE_STEP, WIDE);
  job->items = job->cut.blocks * job->cut.chunks;
  at_pool_run(call->pool, job->items * job->groups, int8_item, job);
  return 0;
}

static int qgemm(const at_call* call) {
  int8_job job = int8_job_of(call, call->words + AT_QGEMM_ZERO);
  return run_int8(&job);
}

static int qconv(const at_call* call) {
  int8_job job = int8_job_of(call, call->words + AT_QCONV2D_ZERO);
  return run_int8(&job);
}

static size_t qgemm_need(const at_call* call) {
  const int8_job job = int8_job_of(call, call->words + AT_QGEMM_ZERO);
  return int8_scratch(&job);
}

static size_t qconv_need(const at_call* call) {
  const int8_job job = int8_job_of(call, call->words + AT_QCONV2D_ZERO);
  return int8_scratch(&job);
}
