// Pairs: a 1 × 1 convolution and the depthwise one behind it that alone reads what it makes. They run in one pass over
// the lines of an image where what is between them is large: it need not go through memory then, nor be in the arena.
// Bits do not depend on it.
#include "pairs.h"

#include <string.h>

#ifdef ATALLA_WORTH_PAIRING  // tests pair whatever they can
static const int64_t LEAST_BETWEEN = ATALLA_WORTH_PAIRING, LEAST_WIDE = 1, MOST_WEIGHTS = INT64_MAX;
#else
static const int64_t LEAST_BETWEEN = 1 << 19,  // bytes: fewer stay in the second-level cache by themselves
    LEAST_WIDE = 28,                           // pixels of a line, which is multiplied by itself
    MOST_WEIGHTS = 40 << 10;                   // bytes that each line reads again
#endif

static const at_tensor* root_of(const atalla_blob* blob, uint32_t tensor) {
  return &blob->tensors[blob->tensors[tensor].root];
}

static uint32_t source_of(const atalla_blob* blob, const at_insn* insn, unsigned i) {
  return i < insn->sources ? at_operand(blob, insn->first_source + i) : AT_NOTHING;
}

// How often instructions name a storage, to read or to write it.
static unsigned uses_of(const atalla_blob* blob, uint32_t root) {
  unsigned found = 0;
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const at_insn* insn = &blob->insns[i];
    const at_outputs made = at_outputs_of(blob, insn);
    found += insn->dst != AT_NOTHING && blob->tensors[insn->dst].root == root;
    for (uint32_t k = 0; k < insn->sources; ++k) {
      const uint32_t tensor = source_of(blob, insn, k);
      found += tensor != AT_NOTHING && blob->tensors[tensor].root == root;
    }
    for (uint32_t k = 0; k < made.count; ++k) {
      found += blob->tensors[at_operand(blob, made.first + k)].root == root;
    }
  }
  return found;
}

static bool is_constant(const atalla_blob* blob, const at_insn* insn, unsigned i) {
  const uint32_t tensor = source_of(blob, insn, i);
  return tensor == AT_NOTHING || root_of(blob, tensor)->space == AT_CONST;
}

// Whether images lie in memory one line behind the other, and a line one pixel behind the other.
static bool is_dense(const at_view* view) {
  const int64_t line = view->dim[3] * view->dim[1];
  return view->stride[1] == 1 && view->stride[3] == view->dim[1] && view->stride[2] == line &&
         view->stride[0] == view->dim[2] * line;
}

// Whether a filter of one tap goes over each pixel, of large images by few weights, and nothing is added.
static bool suits(const at_call* conv, const at_call* dw) {
  const int64_t* words = conv->words;
  const at_view *src = &conv->src[0], *dst = &conv->dst;
  const int64_t bytes = (int64_t)(at_elements(dst) * sizeof(float));
  return words[AT_CONV2D_KERNEL_H] == 1 && words[AT_CONV2D_KERNEL_W] == 1 && words[AT_CONV2D_STRIDE_H] == 1 &&
         words[AT_CONV2D_STRIDE_W] == 1 && words[AT_CONV2D_TOP] == 0 && words[AT_CONV2D_LEFT] == 0 &&
         words[AT_CONV2D_GROUPS] == 1 && src->dim[2] == dst->dim[2] && src->dim[3] == dst->dim[3] &&
         src->dim[1] > AT_FEW_CHANNELS && !(conv->present >> 3 & 1) && at_elements(&dw->dst) > 0 &&
         bytes >= LEAST_BETWEEN && dst->dim[3] >= LEAST_WIDE &&
         src->dim[1] * dst->dim[1] * (int64_t)sizeof(float) <= MOST_WEIGHTS;
}

// Whether no line of the output is written where a line of the input lies that is read later.
static bool keeps_order(const at_call* conv, const at_call* dw) {
  const at_view *in = &conv->src[0], *out = &dw->dst;
  if (!is_dense(in) || !is_dense(out)) return false;
  const int64_t* words = dw->words;
  const int64_t in_line = in->stride[2] * (int64_t)sizeof(float), out_line = out->stride[2] * (int64_t)sizeof(float);
  const int64_t reach = (words[AT_DWCONV2D_KERNEL_H] - 1) * words[AT_DWCONV2D_DILATION_H] + 1;
  const char* end = in->data + in->dim[0] * in->dim[2] * in_line;
  for (int64_t n = 0; n < out->dim[0]; ++n) {
    for (int64_t y = 0; y < out->dim[2]; ++y) {
      int64_t read = y * words[AT_DWCONV2D_STRIDE_H] - words[AT_DWCONV2D_TOP] + reach;
      read = read < 0 ? 0 : read > in->dim[2] ? in->dim[2] : read;
      const char* unread = in->data + (n * in->dim[2] + read) * in_line;
      const char* written = out->data + (n * out->dim[2] + y + 1) * out_line;
      if (out->data < end && unread < written) return false;
    }
  }
  return true;
}

static bool is_apart(const at_tensor* one, const at_tensor* other) {
  if (one->space != other->space || one->space == AT_INPUT || one->space == AT_OUTPUT) return true;
  return one->place + (int64_t)one->bytes <= other->place || other->place + (int64_t)other->bytes <= one->place;
}

bool at_is_pair(const atalla_blob* blob, uint32_t number, const at_call* calls, unsigned threads) {
  if (number + 1 >= blob->insn_count) return false;
  const at_insn *conv = &blob->insns[number], *dw = conv + 1;
  if (conv->op != AT_OP_CONV2D || dw->op != AT_OP_DWCONV2D) return false;
  const at_call *first = &calls[number], *second = first + 1;
  const at_view *made = &first->dst, *read = &second->src[0];
  if (!made->data || made->data != read->data || memcmp(made->dim, read->dim, sizeof made->dim) != 0 ||
      memcmp(made->stride, read->stride, sizeof made->stride) != 0 || !suits(first, second)) {
    return false;
  }
  const uint32_t between = blob->tensors[conv->dst].root;
  if (blob->tensors[between].space != AT_ARENA || uses_of(blob, between) != 2) return false;
  for (unsigned i = 1; i <= 2; ++i) {
    if (!is_constant(blob, conv, i) || !is_constant(blob, dw, i)) return false;
  }
  const at_tensor *in = root_of(blob, source_of(blob, conv, 0)), *out = root_of(blob, dw->dst);
  return is_apart(in, out) || (threads == 1 && keeps_order(first, second));
}
