// All kernels, for one instruction set. Needs VL and NAME, as "kernels_avx2.c" defines them.
#include "attention.h"
#include "bf16.h"
#include "bmm.h"
#include "conv.h"
#include "depthwise.h"
#include "device.h"
#include "elementwise.h"
#include "gemm.h"
#include "move.h"
#include "norm.h"
#include "pair.h"
#include "pool2d.h"
#include "product.h"
#include "reduce.h"
#include "resize.h"
#include "sample.h"
#include "scatter.h"
#include "table.h"
#include "winograd.h"
#if VL < 16  // wider ones have sets of their own
#include "int8.h"
#endif

const at_kernels TABLE(NAME) = {
    .name = QUOTED(NAME),
    .run =
        {
            [AT_OP_COPY] = copy,       [AT_OP_FILL] = fill,        [AT_OP_IOTA] = iota,
            [AT_OP_GATHER] = gather,   [AT_OP_EW] = elementwise,   [AT_OP_GEMM] = gemm,
            [AT_OP_BMM] = bmm,         [AT_OP_CONV2D] = conv,      [AT_OP_CONV2D_WINO] = wino,
            [AT_OP_DWCONV2D] = dwconv, [AT_OP_POOL2D] = pool2d,    [AT_OP_REDUCE] = reduce,
            [AT_OP_SOFTMAX] = softmax, [AT_OP_NORM] = norm,        [AT_OP_ATTENTION] = attention,
            [AT_OP_CUMSUM] = cumsum,   [AT_OP_RESIZE2D] = resize,  [AT_OP_SCATTER] = scatter,
            [AT_OP_SAMPLE2D] = sample, [AT_OP_QDWCONV2D] = dwconv, [AT_OP_BGEMM] = bgemm,
            [AT_OP_BCONV2D] = bconv,
#if VL < 16
            [AT_OP_QGEMM] = qgemm,     [AT_OP_QCONV2D] = qconv,
#endif
        },
    .scratch =
        {
            [AT_OP_BMM] = bmm_need,
            [AT_OP_CONV2D] = conv_need,
            [AT_OP_CONV2D_WINO] = wino_need,
            [AT_OP_DWCONV2D] = dw_need,
            [AT_OP_ATTENTION] = attention_need,
            [AT_OP_REDUCE] = reduce_need,
            [AT_OP_RESIZE2D] = resize_need,
            [AT_OP_QDWCONV2D] = dw_need,
            [AT_OP_BGEMM] = bgemm_need,
            [AT_OP_BCONV2D] = bconv_need,
#if VL < 16
            [AT_OP_QGEMM] = qgemm_need,
            [AT_OP_QCONV2D] = qconv_need,
#endif
        },
    .pair = pair,
    .pair_scratch = pair_need,
    .device = &DEVICE_KERNELS,
};
