// What each instruction set brings for the device: its matrix unit, and the vector unit's operations on sums.
#pragma once

#include "../internal.h"

// Whole sums, [rows][columns], become what is stored; all of it lies in scratchpad memory.
typedef struct {
  size_t rows, columns;
  char* sums;             // int32 or float32, one row behind the other
  const float* residual;  // the same shape, or NULL
  const int64_t* words;   // act, low, high; of int8 zero, low, high
  bool is_bf16, is_int8;  // what was multiplied: float32 where neither
  const float *scale, *offset;
  const int32_t* column_sums;  // of the weights, of int8
  char* out;                   // of float32 that was not int8 the sums themselves
  uint8_t out_dtype;
} at_finish;

struct at_device_kernels {
  atalla_matmul f32, int8, bf16;
  void (*finish)(const at_finish* finish);
  // One tile of an image, `edge` pixels a side, to as many rows that are `pitch` floats apart; and sums to one tile.
  void (*wino_in)(size_t edge, const at_view* src, int64_t n, int64_t top, int64_t left, size_t depth, float* v,
                  size_t pitch);
  void (*wino_out)(const at_call* call, const float* m, size_t pitch, int64_t n, int64_t top, int64_t left);
};
