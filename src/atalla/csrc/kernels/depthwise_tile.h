// One row of the output of a depthwise convolution, or two: in tiles of some neighbours, all channels, a vector of them
// at a time; one function for each width and stride of the filter and each activation. "depthwise.h" says what is
// computed.
#pragma once

#include "narrow.h"
#include "product.h"
#include "rounded.h"

enum { PIXELS = 7 };                       // images are 7, 14, 28, 56 or 112 pixels wide
enum { DW_ROWS = VL == 16 ? 2 : 1 };       // of a tile: as many as have registers for their sums and weights
enum { MOST_WIDTH = 5, MOST_STRIDE = 2 };  // of filters that have functions of their own

typedef struct {
  const char* const* columns;  // [kernel_h, and `down` for the second row][reach]
  int64_t from, to;            // of these lines, those inside of the image
  size_t reach;
  int64_t rows, wide;  // of the output
  int64_t down;        // lines from one row's first to the other's
  const char* weight;  // [taps][channels]
  const float* bias;
  float* residual;
  char* out;
  int64_t residual_row, residual_pixel, out_row, out_pixel;  // elements between them
  const int32_t* sums;                                       // of int8, and what is made of it
  const float *scale, *offset;
  float zero;
  int out_int8;
  size_t channels;
  int64_t kernel_h, kernel_w, stride, dilation;
  activation act;
} dw_rows;

// What is done to sums before they are stored: nothing, two bounds, hardswish, or what int8 needs.
typedef enum { DW_NONE, DW_CLAMP, DW_HARDSWISH, DW_INT8, DW_KINDS } dw_kind;

INLINE dw_kind dw_kind_of(int64_t act) {
  if (act == AT_ACT_RELU || act == AT_ACT_CLAMP) return DW_CLAMP;
  return act == AT_ACT_HARDSWISH ? DW_HARDSWISH : DW_NONE;
}

INLINE vf dw_load(const float* at, size_t count, const int full) { return full ? vload(at) : vload_part(at, count); }

// Element `c` of int8 or of floats, and those behind it.
INLINE vf dw_number(const int is_int8, const char* at, size_t c, size_t count, const int full) {
  if (!is_int8) return dw_load((const float*)(const void*)at + c, count, full);
  return full ? vload_int8((const int8_t*)at + c) : vload_int8_part((const int8_t*)at + c, count);
}

// What sums begin with.
INLINE vf dw_start(const int is_int8, const dw_rows* b, size_t c, size_t count, const int full) {
  if (!is_int8) return b->bias ? dw_load(b->bias + c, count, full) : vset(0.0f);
  const vi sums = (vi)dw_load((const float*)(const void*)b->sums + c, count, full);
  return __builtin_convertvector(sums, vf) * vset(-b->zero);
}

INLINE void dw_store_int8(const dw_rows* b, int64_t place, size_t c, size_t count, const int full, vf sum) {
  const vf made = vrounded(sum, dw_load(b->scale + c, count, full)) + dw_load(b->offset + c, count, full);
  const vf x = vceil_at(vfloor_at(made, vset(b->act.low)), vset(b->act.high));
  int8_t* bytes = (int8_t*)b->out + place + c;
  float* floats = (float*)(void*)b->out + place + c;
  if (b->out_int8) {
    full ? vstore_int8(bytes, x) : vstore_int8_part(bytes, x, count);
  } else {
    full ? vstore(floats, x) : vstore_part(floats, x, count);
  }
}

INLINE void dw_store(const dw_rows* b, float* at, size_t count, const int full, const dw_kind kind, vf x) {
  if (kind == DW_CLAMP) x = vceil_at(vfloor_at(x, vset(b->act.low)), vset(b->act.high));
  if (kind == DW_HARDSWISH) x = vhardswish(x);
  full ? vstore(at, x) : vstore_part(at, x, count);
}

// One pointer that goes on from pixel to pixel: the compiler would keep one for each, on the stack.
INLINE float* onward(float* at, int64_t step) {
  at += step;
  __asm__("" : "+r"(at));
  return at;
}

// Adds what a line of the input contributes to `rows` rows of the output by their rows of the filter.
INLINE void dw_line(const int kernel_w, const int stride, const int rows, const int full, const int is_int8,
                    const char* const* columns, vf w[][MOST_WIDTH], size_t c, size_t count, vf acc[][PIXELS]) {
#pragma GCC unroll 24
  for (int at = 0; at < (PIXELS - 1) * stride + kernel_w; ++at) {
    const vf x = dw_number(is_int8, columns[at], c, count, full);
#pragma GCC unroll 8
    for (int p = 0; p < PIXELS; ++p) {
      const int j = at - p * stride;
      if (j < 0 || j >= kernel_w) continue;
#pragma GCC unroll 2
      for (int r = 0; r < rows; ++r) acc[r][p] = add_product(!is_int8, acc[r][p], x, w[r][j]);
    }
  }
}

INLINE void dw_weights(const int kernel_w, const int full, const int is_int8, const dw_rows* b, int64_t row, size_t c,
                       size_t count, vf w[MOST_WIDTH]) {
  const size_t apart = b->channels * (is_int8 ? 1 : sizeof(float));
  const char* weight = b->weight + (size_t)(row * kernel_w) * apart;
#pragma GCC unroll 5
  for (int j = 0; j < kernel_w; ++j, weight += apart) w[j] = dw_number(is_int8, weight, c, count, full);
}

// Pixels of a row from `x` on.
INLINE void dw_finish(const int full, const dw_kind kind, const dw_rows* b, int64_t row, int64_t x, size_t c,
                      size_t count, vf acc[PIXELS]) {
  const int64_t place = row * b->out_row + x * b->out_pixel;
  if (kind == DW_INT8) {
    for (int p = 0; p < PIXELS; ++p) dw_store_int8(b, place + p * b->out_pixel, c, count, full, acc[p]);
    return;
  }
  if (b->residual) {
    float* residual = b->residual + row * b->residual_row + x * b->residual_pixel + (int64_t)c;
    for (int p = 0; p < PIXELS; ++p, residual = onward(residual, b->residual_pixel)) {
      acc[p] += dw_load(residual, count, full);
    }
  }
  float* out = (float*)(void*)b->out + place + (int64_t)c;
  for (int p = 0; p < PIXELS; ++p, out = onward(out, b->out_pixel)) dw_store(b, out, count, full, kind, acc[p]);
}

// PIXELS neighbours of some rows, a vector of channels; what comes before `b` are constants.
INLINE void dw_vector(const int kernel_w, const int stride, const int rows, const int full, const dw_kind kind,
                      const dw_rows* b, int64_t x, size_t c, size_t count) {
  const int is_int8 = kind == DW_INT8;
  vf acc[2][PIXELS], w[2][MOST_WIDTH];
  const vf start = dw_start(is_int8, b, c, count, full);
#pragma GCC unroll 2
  for (int r = 0; r < rows; ++r) {
    for (int p = 0; p < PIXELS; ++p) acc[r][p] = start;
  }
  const char* const* columns = b->columns + (size_t)b->from * b->reach + x * stride;
  const int64_t alone = rows == 1 || b->to < b->down ? b->to : b->down;
  int64_t line = b->from;
  for (; line < alone; ++line, columns += b->reach) {
    dw_weights(kernel_w, full, is_int8, b, line, c, count, w[0]);
    dw_line(kernel_w, stride, 1, full, is_int8, columns, w, c, count, acc);
  }
  for (; rows > 1 && line < b->kernel_h && line < b->to; ++line, columns += b->reach) {
    dw_weights(kernel_w, full, is_int8, b, line, c, count, w[0]);
    dw_weights(kernel_w, full, is_int8, b, line - b->down, c, count, w[1]);
    dw_line(kernel_w, stride, rows, full, is_int8, columns, w, c, count, acc);
  }
  for (; rows > 1 && line < b->to; ++line, columns += b->reach) {
    dw_weights(kernel_w, full, is_int8, b, line - b->down, c, count, w[1]);
    dw_line(kernel_w, stride, 1, full, is_int8, columns, w + 1, c, count, acc + 1);
  }
#pragma GCC unroll 2
  for (int r = 0; r < rows; ++r) dw_finish(full, kind, b, r, x, c, count, acc[r]);
}

INLINE void dw_channels(const int kernel_w, const int stride, const int rows, const dw_kind kind, const dw_rows* b,
                        int64_t x) {
  size_t c = 0;
  if (kind == DW_INT8) {  // a part of a vector of bytes is slow: at the end some channels again, with the same result
    for (; c < b->channels; c += VL) {
      const size_t most = b->channels - VL;
      dw_vector(kernel_w, stride, rows, 1, kind, b, x, c < most ? c : most, VL);
    }
    return;
  }
  for (; c + VL <= b->channels; c += VL) dw_vector(kernel_w, stride, rows, 1, kind, b, x, c, VL);
  if (c < b->channels) dw_vector(kernel_w, stride, rows, 0, kind, b, x, c, b->channels - c);
}

// The last tile begins earlier, so that it is whole: what it makes again is the same.
INLINE void dw_tiles(const int kernel_w, const int stride, const int rows, const dw_kind kind, const dw_rows* given) {
  const dw_rows own = *given, *b = &own;  // which no store can change
  for (int64_t x = 0; x < b->wide; x += PIXELS) {
    dw_channels(kernel_w, stride, rows, kind, b, x + PIXELS <= b->wide ? x : b->wide - PIXELS);
  }
}

// A function for each width and stride of the filter and each kind: one for all would have too few registers.
#define EACH_FILTER(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2)
#define EACH_KIND(X, WIDTH, STRIDE) \
  X(WIDTH, STRIDE, DW_NONE) X(WIDTH, STRIDE, DW_CLAMP) X(WIDTH, STRIDE, DW_HARDSWISH) X(WIDTH, STRIDE, DW_INT8)
#define DEFINE(WIDTH, STRIDE, KIND)                                                             \
  static __attribute__((noinline)) void dw_rows_##WIDTH##_##STRIDE##_##KIND(const dw_rows* b) { \
    if (DW_ROWS > 1 && b->rows > 1) {                                                           \
      dw_tiles(WIDTH, STRIDE, DW_ROWS, KIND, b);                                                \
    } else {                                                                                    \
      dw_tiles(WIDTH, STRIDE, 1, KIND, b);                                                      \
    }                                                                                           \
  }
#define DEFINE_KINDS(WIDTH, STRIDE) EACH_KIND(DEFINE, WIDTH, STRIDE)
EACH_FILTER(DEFINE_KINDS)
#undef DEFINE_KINDS
#undef DEFINE

#define NAME_TILE(WIDTH, STRIDE, KIND) [WIDTH][STRIDE][KIND] = dw_rows_##WIDTH##_##STRIDE##_##KIND,
#define NAME_TILES(WIDTH, STRIDE) EACH_KIND(NAME_TILE, WIDTH, STRIDE)
static void (*const DW_TILES[MOST_WIDTH + 1][MOST_STRIDE + 1][DW_KINDS])(const dw_rows* b) = {EACH_FILTER(NAME_TILES)};
#undef NAME_TILES
#undef NAME_TILE

// A pixel of the first row, whatever the filter is.
INLINE void dw_pixel(const int is_int8, const dw_rows* b, int64_t x, size_t c, size_t count, const int full) {
  vf acc = dw_start(is_int8, b, c, count, full);
  for (int64_t i = b->from; i < b->to; ++i) {
    for (int64_t j = 0; j < b->kernel_w; ++j) {
      const char* column = b->columns[(size_t)i * b->reach + (size_t)(x * b->stride + j * b->dilation)];
      const size_t w = (size_t)(i * b->kernel_w + j) * b->channels + c;
      const vf input = dw_number(is_int8, column, c, count, full);
      acc = vadd_product(acc, input, dw_number(is_int8, b->weight, w, count, full));
    }
  }
  if (is_int8) {
    dw_store_int8(b, x * b->out_pixel, c, count, full, acc);
  } else {
    if (b->residual) acc += dw_load(b->residual + x * b->residual_pixel + (int64_t)c, count, full);
    dw_store(b, (float*)(void*)b->out + x * b->out_pixel + (int64_t)c, count, full, dw_kind_of(b->act.act), acc);
  }
}

INLINE void dw_all_channels(const int is_int8, const dw_rows* b, int64_t x) {
  size_t c = 0;
  for (; c + VL <= b->channels; c += VL) dw_pixel(is_int8, b, x, c, VL, 1);
  if (c < b->channels) dw_pixel(is_int8, b, x, c, b->channels - c, 0);
}

static void dw_pixels(const dw_rows* b) {
  for (int64_t x = 0; x < b->wide; ++x) b->scale ? dw_all_channels(1, b, x) : dw_all_channels(0, b, x);
}
