// What an instruction costs, in multiplications or about as much: the pool of threads asks whether it is worth sharing.
#include "internal.h"

enum { OF_AN_ELEMENT = 4 };

static double elements(const at_view* view) { return (double)at_elements(view); }

static double work_of(uint16_t op, const at_call* call) {
  const at_view *dst = &call->dst, *first = &call->src[0];
  const double made = elements(dst);
  switch (op) {
    case AT_OP_GEMM:
    case AT_OP_BMM:
    case AT_OP_QGEMM:
    case AT_OP_BGEMM:
      return made * (double)first->dim[first->rank - 1];
    case AT_OP_CONV2D:
    case AT_OP_QCONV2D:
    case AT_OP_BCONV2D:
      return made * (double)(call->words[AT_CONV2D_KERNEL_H] * call->words[AT_CONV2D_KERNEL_W]) *
             (double)(first->dim[1] / call->words[AT_CONV2D_GROUPS]);
    case AT_OP_CONV2D_WINO:
      // 36 products for 16 elements, 25 for 4 or 16 for 4, and the transforms
      return made * (call->src[1].dim[1] == 25 ? 6 : 4) * (double)first->dim[1];
    case AT_OP_DWCONV2D:
    case AT_OP_QDWCONV2D:
      return made * (double)(call->words[AT_DWCONV2D_KERNEL_H] * call->words[AT_DWCONV2D_KERNEL_W]);
    case AT_OP_ATTENTION:
      return elements(first) * (double)call->src[1].dim[2] * 2;
    default: {
      double most = made;
      for (unsigned i = 0; i < call->sources; ++i) {
        if (call->present >> i & 1 && elements(&call->src[i]) > most) most = elements(&call->src[i]);
      }
      return most * OF_AN_ELEMENT;
    }
  }
}

size_t at_work(uint16_t op, const at_call* call) {
  const double work = work_of(op, call);
  return work < (double)(SIZE_MAX / 2) ? (size_t)work : SIZE_MAX / 2;
}
