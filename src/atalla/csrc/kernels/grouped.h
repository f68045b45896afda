// CONV2D of many groups of four or eight channels, which would leave most of a panel empty: a vector holds whole groups
// of neighbouring channels, and each channel of a group meets a vector of weights of its own.
//
//   out[y][x][c] = act(Σ_i Σ_j Σ_k in[y·s + i][x·s + j][c − c % D + k] · w[i][j][k][c] + bias[c] (+ residual))
//
// Rows, columns and tiles are those of depthwise convolutions, of which D is 1. Sums are added in the order of
// products.
#pragma once

#include "depthwise.h"

// Lane K of each four lanes, in all of them; K is a literal. The lower or the upper four of each eight lanes, in both.
#if defined(__AVX512F__) && VL == 16
#define SPREAD(X, K) ((vf)_mm512_permute_ps((__m512)(X), 0x55 * (K)))
INLINE vf vspread_half(const int upper, vf x) {
  return (vf)(upper ? _mm512_shuffle_f32x4((__m512)x, (__m512)x, 0xf5)
                    : _mm512_shuffle_f32x4((__m512)x, (__m512)x, 0xa0));
}
#elif defined(__AVX2__) && VL == 8
#define SPREAD(X, K) ((vf)_mm256_permute_ps((__m256)(X), 0x55 * (K)))
INLINE vf vspread_half(const int upper, vf x) {
  return (vf)(upper ? _mm256_permute2f128_ps((__m256)x, (__m256)x, 0x11)
                    : _mm256_permute2f128_ps((__m256)x, (__m256)x, 0x00));
}
#else
#define SPREAD(X, K) vspread_lane(X, K)
INLINE vf vspread_lane(vf x, const int k) {
  vf found = {0};
  for (int lane = 0; lane < VL; ++lane) found[lane] = x[lane - lane % 4 + k];
  return found;
}
INLINE vf vspread_half(const int upper, vf x) {
  vf found = {0};
  for (int lane = 0; lane < VL; ++lane) found[lane] = x[(lane - lane % 8 + 4 * upper + lane % 4) % VL];
  return found;
}
#endif

// Channel `k` of each group, in all lanes of the group; groups begin at multiples of `depth`, 4 or 8.
INLINE vf vspread(const int depth, vf x, const int k) {
  const vf four = depth == 8 ? vspread_half(k >= 4, x) : x;
  switch (k % 4) {
    case 0:
      return SPREAD(four, 0);
    case 1:
      return SPREAD(four, 1);
    case 2:
      return SPREAD(four, 2);
    default:
      return SPREAD(four, 3);
  }
}
#undef SPREAD

enum { MOST_GROUPED = 8 };  // channels of a group

// PIXELS neighbours of a row, a vector of channels; what comes before `b` are constants.
INLINE void grouped_vector(const int depth, const int kernel_w, const int stride, const int full, const dw_rows* b,
                           int64_t x, size_t c, size_t count) {
  vf acc[PIXELS];
  const vf start = dw_start(0, b, c, count, full);
  for (int p = 0; p < PIXELS; ++p) acc[p] = start;
  const size_t line_floats = (size_t)(kernel_w * depth) * VL;
  const char* const* columns = b->columns + (size_t)b->from * b->reach + x * stride;
  const float* weight = (const float*)(const void*)b->weight + c * (size_t)(b->kernel_h * kernel_w * depth);
  weight += (size_t)b->from * line_floats;
  for (int64_t left = b->to - b->from; left > 0; --left, columns += b->reach, weight += line_floats) {
#pragma GCC unroll 24
    for (int at = 0; at < (PIXELS - 1) * stride + kernel_w; ++at) {
      const vf all = dw_number(0, columns[at], c, count, full);
#pragma GCC unroll 8
      for (int k = 0; k < depth; ++k) {
        const vf one = vspread(depth, all, k);
#pragma GCC unroll 8
        for (int p = 0; p < PIXELS; ++p) {
          const int j = at - p * stride;
          if (j >= 0 && j < kernel_w) acc[p] = add_product(1, acc[p], one, vload(weight + (j * depth + k) * VL));
        }
      }
    }
  }
  switch (dw_kind_of(b->act.act)) {
    case DW_CLAMP:
      dw_finish(full, DW_CLAMP, b, 0, x, c, count, acc);
      break;
    case DW_HARDSWISH:
      dw_finish(full, DW_HARDSWISH, b, 0, x, c, count, acc);
      break;
    default:
      dw_finish(full, DW_NONE, b, 0, x, c, count, acc);
  }
}

INLINE void grouped_tiles(const int depth, const int kernel_w, const int stride, const dw_rows* given) {
  const dw_rows own = *given, *b = &own;  // which no store can change
  for (int64_t left = 0; left < b->wide; left += PIXELS) {
    const int64_t x = left + PIXELS <= b->wide ? left : b->wide - PIXELS;
    size_t c = 0;
    for (; c + VL <= b->channels; c += VL) grouped_vector(depth, kernel_w, stride, 1, b, x, c, VL);
    if (c < b->channels) grouped_vector(depth, kernel_w, stride, 0, b, x, c, b->channels - c);
  }
}

#if VL >= 8
#define EACH_GROUPED(X) X(4, 3, 1) X(4, 3, 2) X(4, 5, 1) X(4, 5, 2) X(8, 3, 1) X(8, 3, 2) X(8, 5, 1) X(8, 5, 2)
#else
#define EACH_GROUPED(X) X(4, 3, 1) X(4, 3, 2) X(4, 5, 1) X(4, 5, 2)
#endif
#define DEFINE(DEPTH, WIDTH, STRIDE)                                                             \
  static __attribute__((noinline)) void grouped_##DEPTH##_##WIDTH##_##STRIDE(const dw_rows* b) { \
    grouped_tiles(DEPTH, WIDTH, STRIDE, b);                                                      \
  }
EACH_GROUPED(DEFINE)
#undef DEFINE
#define NAME_GROUPED(DEPTH, WIDTH, STRIDE) [DEPTH][WIDTH][STRIDE] = grouped_##DEPTH##_##WIDTH##_##STRIDE,
static void (*const GROUPED[MOST_GROUPED + 1][MOST_WIDTH + 1][MOST_STRIDE + 1])(const dw_rows*) = {
    EACH_GROUPED(NAME_GROUPED)};
#undef NAME_GROUPED

// The function of a convolution, if there is one.
INLINE void (*grouped_of(const at_call* call))(const dw_rows*) {
  const int64_t *words = call->words, width = words[AT_CONV2D_KERNEL_W], stride = words[AT_CONV2D_STRIDE_W];
  const int64_t groups = words[AT_CONV2D_GROUPS], depth = call->src[0].dim[1] / groups;
  const int is_known = groups > 1 && depth <= MOST_GROUPED && call->dst.dim[1] == call->src[0].dim[1] &&
                       width <= MOST_WIDTH && stride <= MOST_STRIDE && call->dst.dim[3] >= PIXELS &&
                       words[AT_CONV2D_DILATION_H] == 1 && words[AT_CONV2D_DILATION_W] == 1;
  // Products make a sum of each slice of the depth: there may be one.
  return is_known && words[AT_CONV2D_KERNEL_H] * width * depth <= MOST_DEPTH ? GROUPED[depth][width][stride] : NULL;
}

INLINE size_t grouped_weights(const at_call* call) {
  const int64_t* words = call->words;
  const size_t channels = (size_t)call->dst.dim[1], depth = channels / (size_t)words[AT_CONV2D_GROUPS];
  return (channels + VL - 1) / VL * VL * depth * (size_t)(words[AT_CONV2D_KERNEL_H] * words[AT_CONV2D_KERNEL_W]);
}

static size_t grouped_need(const at_call* call) {
  return at_bytes((unsigned __int128)dw_need(call) + grouped_weights(call) * sizeof(float) + AT_LINE);
}

// Panels of one group each become vectors of several, which the first thread's scratch holds for all.
static float* grouped_pack(const at_call* call) {
  const size_t taps = (size_t)(call->words[AT_CONV2D_KERNEL_H] * call->words[AT_CONV2D_KERNEL_W]);
  const size_t groups = (size_t)call->words[AT_CONV2D_GROUPS], depth = (size_t)call->dst.dim[1] / groups;
  float* packed = (float*)(void*)(call->scratch + (dw_need(call) + AT_LINE - 1) / AT_LINE * AT_LINE);
  const float* panel = (const float*)(const void*)call->src[1].data;
  memset(packed, 0, grouped_weights(call) * sizeof(float));
  for (size_t c = 0; c < groups * depth; c += depth) {
    float* to = packed + c / VL * taps * depth * VL + c % VL;
    for (size_t row = 0; row < taps * depth; ++row, to += VL, panel += AT_PANEL) {
      memcpy(to, panel, depth * sizeof(float));
    }
  }
  return packed;
}

static int grouped(const at_call* call) {
  dw_job job = dw_job_of(call);
  job.tiles = grouped_of(call);
  job.together = 1;
  job.items = call->dst.dim[2];
  job.weight = (const char*)grouped_pack(call);
  at_pool_run(call->pool, (size_t)(call->dst.dim[0] * job.items), dw_item, &job);
  return 0;
}
