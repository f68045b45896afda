// CONV2D of a picture's three channels by filters that are three wide and step by two, to one vector of channels: a row
// of the filter's weights stays in registers, every second column is read once for both of its neighbours, and the
// picture is read where it lies. That takes the registers of AVX-512; otherwise "stem.h" does it.
#pragma once

#include "product.h"

enum {
  PICTURE = 3,                           // channels
  PICTURE_WIDE = 3,                      // columns of the filter
  PICTURE_HIGH = 7,                      // rows of it, at most
  PICTURE_STEP = 2,                      // columns from one pixel of the output to the next
  PICTURE_TILE = 14,                     // pixels of a tile
  PICTURE_READS = 2 * PICTURE_TILE + 1,  // columns that it reads
  PICTURE_ROW = PICTURE * PICTURE_WIDE   // taps of a row of the filter
};
_Static_assert((int)PICTURE_TILE <= (int)MOST_HIGH, "sums of a tile");

typedef struct {
  const at_call* call;
  product product;
  size_t block, blocks;  // rows of the output that one item makes, and items of an image
} picture_job;

INLINE int suits_picture(const at_call* call) {
  const int64_t* words = call->words;
  const at_view *src = &call->src[0], *dst = &call->dst;
  return VL == 16 && words[AT_CONV2D_GROUPS] == 1 && src->dim[1] == PICTURE && src->dim[3] > 0 && src->stride[3] == 1 &&
         dst->dim[1] <= VL && dst->dim[3] >= PICTURE_TILE && words[AT_CONV2D_KERNEL_W] == PICTURE_WIDE &&
         words[AT_CONV2D_KERNEL_H] <= PICTURE_HIGH && words[AT_CONV2D_STRIDE_W] == PICTURE_STEP &&
         words[AT_CONV2D_DILATION_W] == 1 && !(call->present >> 3 & 1);
}

// What a tile reads of a row, from column `left` on: where it lies, or a copy with zeros beside the picture.
INLINE const float* picture_line(const float* row, int64_t left, int64_t columns, float* copy) {
  if (row && left >= 0 && left + PICTURE_READS <= columns) return row + left;
  const span in = row ? span_inside(left, 1, columns, PICTURE_READS) : (span){0, 0};
  for (int64_t i = 0; i < PICTURE_READS; i += VL) vstore(copy + i, vset(0.0f));
  for (int64_t i = in.from; i < in.to; i += VL) {
    const size_t count = in.to - i < VL ? (size_t)(in.to - i) : VL;
    vstore_part(copy + i, vload_part(row + left + i, count), count);
  }
  return copy;
}

// Asks for a part of a row that the tile below reads and this one does not, mostly: it is too little for the processor
// to foresee.
INLINE void picture_fetch(const at_call* call, const float* row, int64_t left) {
  const uintptr_t below = (uintptr_t)call->words[AT_CONV2D_STRIDE_H] * (uintptr_t)call->src[0].stride[2];
  const uintptr_t at = (uintptr_t)row + (below + (uintptr_t)left) * sizeof(float);
  for (size_t i = 0; i < PICTURE_READS * sizeof(float); i += AT_LINE) __builtin_prefetch((const void*)(at + i), 0, 3);
}

// One tile, from column x of the output on; rows[i][c] is a row of the picture, or NULL above and below it.
INLINE void picture_tile(const int fill, const pass* s, const at_call* call, const float* rows[][PICTURE], int64_t x) {
  const product* p = s->product;
  const int64_t left = x * PICTURE_STEP - call->words[AT_CONV2D_LEFT], columns = call->src[0].dim[3];
  vf acc[MOST_HIGH][MOST_VECTORS];
  float *out[MOST_HIGH], copy[PICTURE][PICTURE_READS + VL];
  fetch_rows(PICTURE_TILE, 1, &p->out, (size_t)x, 0);
  const vf start = p->bias ? load_columns(p->bias, s, 1, 0, fill) : vset(0.0f);
  UNROLL for (int r = 0; r < PICTURE_TILE; ++r) acc[r][0] = start;
  const float* weight = p->weight;
  const int64_t high = call->words[AT_CONV2D_KERNEL_H], seen = high - call->words[AT_CONV2D_STRIDE_H];
  for (int64_t i = 0; i < high; ++i, weight += PICTURE_ROW * VL) {
    const float* line[PICTURE];
    vf w[PICTURE_WIDE][PICTURE];
    UNROLL for (int c = 0; c < PICTURE; ++c) {
      line[c] = picture_line(rows[i][c], left, columns, copy[c]);
      if (i >= seen && rows[i][c]) picture_fetch(call, rows[i][c], left);
      UNROLL for (int j = 0; j < PICTURE_WIDE; ++j) w[j][c] = vload(weight + (j * PICTURE + c) * VL);
    }
    UNROLL for (int r = 0; r <= PICTURE_TILE; ++r) {
      UNROLL for (int c = 0; c < PICTURE; ++c) {
        const vf x0 = vset(line[c][PICTURE_STEP * r]);
        if (r > 0) acc[r - 1][0] = add_product(1, acc[r - 1][0], x0, w[2][c]);
        if (r < PICTURE_TILE) acc[r][0] = add_product(1, acc[r][0], x0, w[0][c]);
      }
      UNROLL for (int c = 0; c < PICTURE && r < PICTURE_TILE; ++c) {
        acc[r][0] += vset(line[c][PICTURE_STEP * r + 1]) * w[1][c];
      }
    }
  }
  find_rows(PICTURE_TILE, &p->out, (size_t)x, 0, out);
  finish_tile(PICTURE_TILE, 1, fill, s, (size_t)x, out, acc);
}

// Some rows of the output; the last tile of a row makes some of the pixels again.
static void picture_item(void* argument, size_t item, unsigned thread) {
  (void)thread;
  const picture_job* job = argument;
  const at_call* call = job->call;
  const at_view *dst = &call->dst, *src = &call->src[0];
  const int64_t *words = call->words, wide = dst->dim[3];
  const int64_t n = (int64_t)(item / job->blocks), first = (int64_t)(item % job->blocks * job->block);
  const int64_t end = first + (int64_t)job->block < dst->dim[2] ? first + (int64_t)job->block : dst->dim[2];
  product p = job->product;
  const pass s = {.product = &p, .first = 1, .last = 1, .count = p.columns};
  for (int64_t y = first; y < end; ++y) {
    const float *image = (const float*)(const void*)src->data + n * src->stride[0], *rows[PICTURE_HIGH][PICTURE];
    for (int64_t i = 0; i < words[AT_CONV2D_KERNEL_H]; ++i) {
      const int64_t row = y * words[AT_CONV2D_STRIDE_H] - words[AT_CONV2D_TOP] + i * words[AT_CONV2D_DILATION_H];
      const int is_inside = row >= 0 && row < src->dim[2];
      for (int64_t c = 0; c < PICTURE; ++c) {
        rows[i][c] = is_inside ? image + row * src->stride[2] + c * src->stride[1] : NULL;
      }
    }
    p.out.first = (float*)(void*)dst->data + n * dst->stride[0] + y * dst->stride[2];
    for (int64_t x = 0; x < wide; x += PICTURE_TILE) {
      const int64_t at = x + PICTURE_TILE <= wide ? x : wide - PICTURE_TILE;
      if (p.columns == VL) {
        picture_tile(FULL, &s, call, rows, at);
      } else {
        picture_tile(PART, &s, call, rows, at);
      }
    }
  }
}

static int picture(const at_call* call) {
  const at_view* dst = &call->dst;
  const size_t high = (size_t)dst->dim[2], threads = at_pool_threads(call->pool);
  picture_job job = {.call = call, .block = threads > 1 ? (high + 4 * threads - 1) / (4 * threads) : high};
  job.blocks = (high + job.block - 1) / job.block;
  job.product = (product){.weight = (const float*)(const void*)call->src[1].data,
                          .bias = call->present >> 2 & 1 ? (const float*)(const void*)call->src[2].data : NULL,
                          .out.step = dst->stride[3],
                          .columns = (size_t)dst->dim[1],
                          .act = read_activation(call->words + AT_CONV2D_ACT)};
  at_pool_run(call->pool, (size_t)dst->dim[0] * job.blocks, picture_item, &job);
  return 0;
}
