// BGEMM and BCONV2D: rows are rounded to bfloat16 as they are packed, and multiplied by panels of pairs; sums are
// float32, and all processors give the same bits.
#pragma once

#include "activation.h"
#include "bf16_tile.h"

#if defined(__AMX_BF16__)
enum { BF16_SUMS = TILE_SUMS, BF16_TAIL = BF16_WIDE * TAIL_BYTES };
#else
enum { BF16_TAIL = 1 };
#endif

typedef struct {
  packed_job rows;
  activation act;
} bf16_job;

INLINE bf16_job bf16_job_of(const at_call* call, int is_conv) {
  bf16_job job = {.rows = packed_job_of(call, is_conv, sizeof(float))};
  job.act = read_activation(call->words + (is_conv ? AT_BCONV2D_ACT : AT_BGEMM_ACT));
  job.rows.pitch = rounded_up(job.rows.taps * job.rows.depth, DEEP) * sizeof(bf16);
  return job;
}

static size_t bf16_scratch(const bf16_job* job) {
  const unsigned __int128 rows = packed_rows(&job->rows, BF16_STEP) + BF16_HIGH;
  return at_bytes(rows * job->rows.pitch + AT_LINE);
}

// Behind the depth lie zeros: what was there could be NaN, which weights of 0 would not hide.
static void pack_bf16(const packed_job* job, size_t group, size_t first, size_t rows, char* a) {
  if (job->is_conv) {
    pack_pixels(job, put_bf16, sizeof(bf16), group, first, rows, a);
  } else {
    pack_rows(job, put_bf16, first, rows, a);
  }
  const size_t filled = job->taps * job->depth * sizeof(bf16);
  for (size_t r = 0; r < rows; ++r, a += job->pitch) memset(a + filled, 0, job->pitch - filled);
}

// Residual and activation; `to` and `of` are where each row of dst and of the residual begins.
INLINE void finish_bf16(const bf16_job* job, size_t rows, size_t first, size_t count, const float* sums,
                        const int64_t* to, const int64_t* of) {
  const at_call* call = job->rows.call;
  const float* residual = call->present >> 3 & 1 ? (const float*)(const void*)call->src[3].data : NULL;
  const vf low = vset(job->act.low), high = vset(job->act.high);
  const int has_bounds = is_bounds(job->act.act);
  for (size_t r = 0; r < rows; ++r) {
    float* dst = (float*)(void*)call->dst.data + to[r] + (int64_t)first;
    const float* summand = residual ? residual + of[r] + (int64_t)first : NULL;
    for (size_t c = 0; c < count; c += VL) {
      const size_t here = count - c < VL ? count - c : VL;
      vf x = vload(sums + r * BF16_SUMS + c);
      if (summand) x += here == VL ? vload(summand + c) : vload_part(summand + c, here);
      if (has_bounds) x = vceil_at(vfloor_at(x, low), high);
      here == VL ? vstore(dst + c, x) : vstore_part(dst + c, x, here);
    }
    if (!has_bounds) activate(job->act.act, dst, count);
  }
}

static void bf16_item(void* argument, size_t item, unsigned thread) {
  const bf16_job* job = argument;
  const packed_job* all = &job->rows;
  const at_call* call = all->call;
  const packed_item of_job = item_of(all, item);
  const size_t group = of_job.group, first = of_job.first, rows = of_job.rows, last = of_job.last;
  int64_t to[MOST_PACKED_ROWS], of[MOST_PACKED_ROWS];
  find_places(all, &call->dst, first, rows, to);
  if (call->present >> 3 & 1) find_places(all, &call->src[3], first, rows, of);
  char* a = call->scratch + thread * call->scratch_bytes;
  pack_bf16(all, group, first, rows, a);
  const size_t pairs = (all->taps * all->depth + AT_PAIR - 1) / AT_PAIR, high = bf16_high(rows);
  const int8_t* weight = (const int8_t*)call->src[1].data + group * all->cut.panels * pairs * STEP_BYTES;
  const float* bias = call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL;
  int8_t tail[BF16_TAIL] __attribute__((aligned(64)));
  float start[BF16_SUMS] __attribute__((aligned(64))), sums[BF16_HIGH * BF16_SUMS] __attribute__((aligned(64)));
  begin_bf16(rows);
  for (size_t panel = of_job.panel; panel < last;) {
    const size_t panels = last - panel < BF16_WIDE ? last - panel : BF16_WIDE, column = panel * AT_PANEL;
    const size_t left = all->columns - column, count = left < panels * AT_PANEL ? left : panels * AT_PANEL;
    const size_t begin = group * all->columns + column;
    for (size_t c = 0; c < BF16_SUMS; ++c) start[c] = bias && c < count ? bias[begin + c] : 0.0f;
    deep_panels p = {.weight = weight + panel * pairs * STEP_BYTES,
                     .panels = panels,
                     .steps = pairs,
                     .start = (const int32_t*)(const void*)start};
    find_bf16_tail(&p, tail);
    for (size_t r = 0; r < rows; r += high) {
      const size_t here = rows - r < high ? rows - r : high;
      sum_bf16(here, high, a + r * all->pitch, all->pitch, &p, sums);
      finish_bf16(job, here, begin, count, sums, to + r, of + r);
    }
    panel += panels;
  }
  end_bf16();
}

static int run_bf16(const at_call* call, int is_conv) {
  if (at_elements(&call->dst) == 0) return 0;
  bf16_job job = bf16_job_of(call, is_conv);
  cut_packed(&job.rows, BF16_STEP, BF16_WIDE);
  at_pool_run(call->pool, job.rows.items * job.rows.groups, bf16_item, &job);
  return 0;
}

static int bgemm(const at_call* call) { return run_bf16(call, 0); }

static int bconv(const at_call* call) { return run_bf16(call, 1); }

static size_t bgemm_need(const at_call* call) {
  const bf16_job job = bf16_job_of(call, 0);
  return bf16_scratch(&job);
}

static size_t bconv_need(const at_call* call) {
  const bf16_job job = bf16_job_of(call, 1);
  return bf16_scratch(&job);
}
