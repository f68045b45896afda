// The products of int8, and of bfloat16, by the instructions that an instruction set adds to the one beneath it. Needs
// VL and NAME.
#include "int8.h"
#if defined(__AMX_BF16__)
#include "bf16.h"
#endif
#include "table.h"

const at_kernels TABLE(NAME) = {
    .name = QUOTED(NAME),
    .run =
        {
            [AT_OP_QGEMM] = qgemm,
            [AT_OP_QCONV2D] = qconv,
#if defined(__AMX_BF16__)
            [AT_OP_BGEMM] = bgemm,
            [AT_OP_BCONV2D] = bconv,
#endif
        },
    .scratch =
        {
            [AT_OP_QGEMM] = qgemm_need,
            [AT_OP_QCONV2D] = qconv_need,
#if defined(__AMX_BF16__)
            [AT_OP_BGEMM] = bgemm_need,
            [AT_OP_BCONV2D] = bconv_need,
#endif
        },
};
