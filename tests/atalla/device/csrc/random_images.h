// Calls on images, made by a seed: filters, pools, other sizes, and pixels where a grid says.
#pragma once

#include "random_views.h"

static const lying PIXELS_FROM = {.inner = 1}, PIXELS_TO = {.inner = 1, .is_dst = 1};

// A window and the images that it makes of each other; `words` begin with STRIDE_H.
static inline void any_window(made* m, int64_t* words, int64_t* src, int64_t* dst) {
  src[0] = dst[0] = between_of(m, 1, 3);
  src[1] = dst[1] = ONE_OF(m, int64_t, 1, 3, 5, 8, 16, 17, 24, 33, 40, 70);
  for (unsigned i = 0; i < 2; ++i) {
    words[8 + i] = ONE_OF(m, int64_t, 1, 2, 3, 3, 3, 5, 5, 7);
    words[i] = between_of(m, 1, 3);
    words[6 + i] = one_in(m, 3) ? between_of(m, 2, 3) : 1;
    words[2 + i] = one_in(m, 8) ? between_of(m, 4, 12) : below(m, words[8 + i]);
    words[4 + i] = below(m, words[8 + i]);
    src[2 + i] = one_in(m, 40) ? 0 : between_of(m, 1, 24);
    const int64_t all = src[2 + i] + words[2 + i] + words[4 + i] - (words[8 + i] - 1) * words[6 + i] - 1;
    dst[2 + i] = all < 0 ? between_of(m, 1, 3) : all / words[i] + 1;
    if (one_in(m, 20)) dst[2 + i] += between_of(m, 1, 4);
  }
  if (one_in(m, 3)) words[1] = words[0] = between_of(m, 1, 2), words[7] = 1;
}

static inline void make_filters(made* m, at_call* call, uint8_t dtype, int64_t channels, int64_t taps) {
  const int64_t dim[] = {channels, taps}, flat[] = {channels * taps};
  make_view(m, call, 1, dtype, 1, flat, ROWS);
  call->src[1].rank = 2;
  memcpy(call->src[1].dim, dim, sizeof dim);
  call->src[1].stride[0] = call->src[1].stride[1] = 0;
}

static inline void make_depthwise(made* m, at_call* call, uint16_t op) {
  int64_t src[4], dst[4];
  const int is_int8 = op == AT_OP_QDWCONV2D;
  any_window(m, m->words, src, dst);
  m->words[AT_DWCONV2D_GROUPS] = src[1];
  const uint8_t dtype = is_int8 ? AT_I8 : AT_F32;
  make_view(m, call, 0, dtype, 4, src, PIXELS_FROM);
  make_filters(m, call, dtype, src[1], m->words[8] * m->words[9]);
  make_view(m, call, AT_SOURCES, is_int8 && one_in(m, 2) ? AT_I8 : AT_F32, 4, dst, PIXELS_TO);
  if (is_int8) {
    make_view(m, call, 2, AT_I32, 1, dst + 1, ROWS);
    for (int64_t c = 0; c < dst[1]; ++c) {  // sums of the filters, as kernels take it for granted
      int32_t sum = 0;
      for (int64_t k = 0; k < call->src[1].dim[1]; ++k) sum += ((int8_t*)m->blocks[1])[k * dst[1] + c];
      ((int32_t*)(void*)m->blocks[2])[c] = sum;
    }
    make_view(m, call, 3, AT_F32, 1, dst + 1, ROWS);
    make_view(m, call, 4, AT_F32, 1, dst + 1, ROWS);
    m->words[AT_QDWCONV2D_ZERO] = between_of(m, -128, 127);
    m->words[AT_QDWCONV2D_LOW] = word_of(-128.0);
    m->words[AT_QDWCONV2D_HIGH] = word_of(ONE_OF(m, double, 127.0, 20.0));
  } else {
    if (one_in(m, 2)) make_view(m, call, 2, AT_F32, 1, dst + 1, ROWS);
    if (one_in(m, 3)) make_view(m, call, 3, AT_F32, 4, dst, PIXELS_FROM);
    call->sources = 4;
    m->words[AT_DWCONV2D_ACT] = below(m, AT_ACT_COUNT);
    m->words[AT_DWCONV2D_LOW] = word_of(-1.0);
    m->words[AT_DWCONV2D_HIGH] = word_of(1.5);
  }
  call->word_count = 14;
}

static inline void make_pool(made* m, at_call* call) {
  int64_t src[4], dst[4];
  any_window(m, m->words + 1, src, dst);
  m->words[AT_POOL2D_KIND] = below(m, AT_POOL_COUNT);
  const uint8_t dtype = m->words[AT_POOL2D_KIND] == AT_POOL_MAX && one_in(m, 2) ? AT_I8 : AT_F32;
  make_view(m, call, 0, dtype, 4, src, PIXELS_FROM);
  make_view(m, call, AT_SOURCES, dtype, 4, dst, PIXELS_TO);
  call->word_count = 11;
}

static inline void make_resize(made* m, at_call* call) {
  int64_t src[4] = {between_of(m, 1, 3), ONE_OF(m, int64_t, 1, 3, 8, 17, 33), 0, 0}, dst[4];
  memcpy(dst, src, sizeof dst);
  m->words[AT_RESIZE2D_KIND] = below(m, AT_RESIZE_COUNT);
  for (unsigned i = 2; i < 4; ++i) {
    src[i] = between_of(m, 1, 20);
    dst[i] = one_in(m, 3) ? src[i] : one_in(m, 2) ? src[i] * between_of(m, 2, 3) : between_of(m, 1, 40);
    if (one_in(m, 5)) src[i] = dst[i] * 2;
    m->words[i - 1] = word_of(one_in(m, 2) ? 0.0 : one_in(m, 3) ? number(m) + 1.6 : (double)dst[i] / (double)src[i]);
  }
  make_view(m, call, 0, AT_F32, 4, src, PIXELS_FROM);
  make_view(m, call, AT_SOURCES, AT_F32, 4, dst, PIXELS_TO);
  call->word_count = 3;
}

static inline void make_sample(made* m, at_call* call) {
  int64_t src[4] = {between_of(m, 1, 3), ONE_OF(m, int64_t, 1, 3, 8, 17, 33), between_of(m, 1, 12),
                    between_of(m, 1, 12)};
  const int64_t dst[4] = {src[0], src[1], between_of(m, 1, 12), between_of(m, 1, 12)},
                grid[4] = {dst[0], dst[2], dst[3], 2};
  make_view(m, call, 0, AT_F32, 4, src, PIXELS_FROM);
  make_view(m, call, 1, AT_F32, 4, grid, ANY);
  make_view(m, call, AT_SOURCES, AT_F32, 4, dst, PIXELS_TO);
  m->words[AT_SAMPLE2D_KIND] = below(m, AT_SAMPLE_COUNT);
  m->words[AT_SAMPLE2D_OUTSIDE] = below(m, AT_OUTSIDE_COUNT);
  m->words[AT_SAMPLE2D_ALIGNED] = below(m, 2);
  call->word_count = 3;
}
