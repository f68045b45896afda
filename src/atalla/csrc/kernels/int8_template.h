// The products of int8 by the instructions that an instruction set adds to the one beneath it. Needs VL and NAME.
#include "int8.h"
#include "table.h"

const at_kernels TABLE(NAME) = {
    .name = QUOTED(NAME),
    .run = {[AT_OP_QGEMM] = qgemm, [AT_OP_QCONV2D] = qconv},
    .scratch = {[AT_OP_QGEMM] = qgemm_need, [AT_OP_QCONV2D] = qconv_need},
};
