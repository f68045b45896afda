// Products: what an instruction multiplies, where its rows lie, and what parts of it take; see "product.h".
#include "product.h"

#include "../kernels/cut.h"

bool at_is_product(uint16_t op) {
  return op == AT_OP_GEMM || op == AT_OP_CONV2D || op == AT_OP_CONV2D_WINO || op == AT_OP_QGEMM ||
         op == AT_OP_QCONV2D || op == AT_OP_BGEMM || op == AT_OP_BCONV2D;
}

static bool is_convolution(uint16_t op) {
  return op == AT_OP_CONV2D || op == AT_OP_CONV2D_WINO || op == AT_OP_QCONV2D || op == AT_OP_BCONV2D;
}

// Joins dims whose rows follow each other evenly in every view, and makes the last two of them lines and pixels.
static void join_rows(at_product* p, unsigned rank, const int64_t* dim, at_grid* const grids[3],
                      const int64_t strides[3][AT_DIMS]) {
  int64_t joined[AT_DIMS], steps[3][AT_DIMS];
  unsigned count = 0;
  for (unsigned i = 0; i < rank; ++i) {
    if (dim[i] == 1) continue;
    bool follows = count > 0;
    for (int k = 0; k < 3 && follows; ++k) follows = steps[k][count - 1] == strides[k][i] * dim[i];
    if (!follows) joined[count++] = 1;
    joined[count - 1] *= dim[i];
    for (int k = 0; k < 3; ++k) steps[k][count - 1] = strides[k][i];
  }
  p->wide = count > 0 ? (size_t)joined[count - 1] : 1;
  p->high = count > 1 ? (size_t)joined[count - 2] : 1;
  p->images = 1;
  for (unsigned i = 0; i + 2 < count; ++i) p->images *= (size_t)joined[i];
  for (int k = 0; k < 3; ++k) {
    at_grid* g = grids[k];
    g->wide = count > 0 ? steps[k][count - 1] : 0;
    g->high = count > 1 ? steps[k][count - 2] : 0;
    for (unsigned i = 0; i + 2 < count; ++i, ++g->outer) {
      g->dim[i] = joined[i];
      g->stride[i] = steps[k][i];
    }
  }
}

static void find_pixels(at_product* p) {
  const at_call* call = p->call;
  const at_view *dst = &call->dst, *src = &call->src[0], *res = p->has_residual ? &call->src[3] : dst;
  int64_t strides[3][AT_DIMS] = {{0}}, dim[AT_DIMS] = {0};
  unsigned rank = dst->rank - 1u;
  at_grid* const grids[3] = {&p->from, &p->to, &p->residual};
  if (!p->is_conv) {
    for (unsigned i = 0; i < rank; ++i) {
      dim[i] = dst->dim[i];
      strides[0][i] = src->stride[i];
      strides[1][i] = dst->stride[i];
      strides[2][i] = res->stride[i];
    }
    join_rows(p, rank, dim, grids, strides);
    return;
  }
  static const int places[3] = {0, 2, 3};
  for (int i = 0; i < 3; ++i) {
    const int at = places[i];
    dim[i] = dst->dim[at];
    const int64_t step = i == 1 ? call->words[AT_CONV2D_STRIDE_H] : i == 2 ? call->words[AT_CONV2D_STRIDE_W] : 1;
    strides[0][i] = src->stride[at] * step;
    strides[1][i] = dst->stride[at];
    strides[2][i] = res->stride[at];
  }
  if (!p->is_window) {
    join_rows(p, 3, dim, grids, strides);
    return;
  }
  p->images = (size_t)dim[0];
  p->high = (size_t)dim[1];
  p->wide = (size_t)dim[2];
  for (int k = 0; k < 3; ++k) {
    *grids[k] = (at_grid){.outer = 1, .high = strides[k][1], .wide = strides[k][2]};
    grids[k]->dim[0] = dim[0];
    grids[k]->stride[0] = strides[k][0];
  }
}

// A filter of one tap that stays inside of the image.
static bool is_plain(const at_call* call) {
  const int64_t* words = call->words;
  const at_view *dst = &call->dst, *src = &call->src[0];
  return words[AT_CONV2D_KERNEL_H] == 1 && words[AT_CONV2D_KERNEL_W] == 1 && words[AT_CONV2D_TOP] == 0 &&
         words[AT_CONV2D_LEFT] == 0 && (dst->dim[2] - 1) * words[AT_CONV2D_STRIDE_H] < src->dim[2] &&
         (dst->dim[3] - 1) * words[AT_CONV2D_STRIDE_W] < src->dim[3] && (src->stride[1] == 1 || src->dim[1] == 1);
}

at_product at_product_of(const atalla_hardware* hardware, uint16_t op, const at_call* call) {
  const bool is_conv = is_convolution(op);
  at_product p = {.call = call, .groups = 1, .taps = 1, .quad = 1, .element = 4, .source = 4, .made = 4, .places = 1};
  p.dtype = op == AT_OP_QGEMM || op == AT_OP_QCONV2D   ? AT_I8
            : op == AT_OP_BGEMM || op == AT_OP_BCONV2D ? AT_BF16
                                                       : AT_F32;
  p.is_conv = is_conv;
  p.is_wino = op == AT_OP_CONV2D_WINO;
  if (p.dtype == AT_I8) {
    p.quad = AT_QUAD;
    p.element = p.source = 1;
    p.made = at_size(call->dst.dtype);
    p.pad = call->words[is_conv ? AT_QCONV2D_ZERO : AT_QGEMM_ZERO];
  } else {
    p.has_bias = call->present >> 2 & 1;
    p.has_residual = call->present >> 3 & 1;
  }
  if (p.dtype == AT_BF16) {
    p.quad = AT_PAIR;
    p.element = 2;
  }
  const unsigned channels = is_conv ? 1 : call->dst.rank - 1u;
  if (is_conv) {
    p.groups = (size_t)call->words[AT_CONV2D_GROUPS];
    p.taps = (size_t)(call->words[AT_CONV2D_KERNEL_H] * call->words[AT_CONV2D_KERNEL_W]);
    p.is_window = p.is_wino || !is_plain(call);
  }
  p.columns = (size_t)call->dst.dim[channels] / p.groups;
  p.channels = (size_t)call->src[0].dim[channels] / p.groups;
  p.is_stem = is_conv && !p.is_wino && p.groups == 1 && p.channels <= AT_FEW_CHANNELS;
  if (p.is_wino) p.taps = 1;
  p.depth = p.taps * p.channels;
  p.blank = at_columns_apart(hardware);
  find_pixels(&p);
  if (p.is_wino) {  // rows are tiles
    p.places = (size_t)call->src[1].dim[1];
    p.tile = at_wino_tile_of(call->src[1].dim[1]);
    p.high = at_parts(p.high, at_side_of(&p));
    p.wide = at_parts(p.wide, at_side_of(&p));
  }
  return p;
}

size_t at_slice_end(const at_product* p, size_t depth) {
  if (p->dtype != AT_F32 || p->is_stem) return p->depth;
  const slicing cut = cut_slices(p->taps, p->channels);
  size_t end;
  if (cut.parts > 1) {
    const size_t tap = depth / p->channels * p->channels, part = (depth - tap) / cut.depth + 1;
    end = tap + (part * cut.depth < p->channels ? part * cut.depth : p->channels);
  } else {
    const size_t slice = cut.taps * p->channels;
    end = (depth / slice + 1) * slice;
  }
  return end < p->depth ? end : p->depth;
}

uint64_t at_chain_cycles(const atalla_hardware* hardware, const at_product* p, size_t rows, size_t from, size_t to) {
  const uint64_t size = hardware->array, edges = rows * (p->dtype == AT_F32 ? hardware->matrix_f32_factor : 1u);
  uint64_t tiles = 0;
  for (size_t at = from; at < to;) {
    const size_t end = at_slice_end(p, at) < to ? at_slice_end(p, at) : to;
    tiles += at_parts(end - at, size);
    at = end;
  }
  return tiles ? (tiles - 1) * at_most(edges, size + 1) + edges + 3 * size - 1 : 0;
}

// Where taps of some lines (or pixels of a line) of the result begin and end in the source, inside of it.
static void clip(int64_t first, int64_t count, int64_t stride, int64_t before, int64_t reach, int64_t size, int64_t* at,
                 int64_t* extent) {
  int64_t from = first * stride - before, to = (first + count - 1) * stride - before + reach;
  if (from < 0) from = 0;
  if (to > size) to = size;
  *at = from < size ? from : size;
  *extent = to > *at ? to - *at : 0;
}

at_footprint at_footprint_of(const at_product* p) {
  const int64_t* words = p->call->words;
  at_footprint w = {(words[AT_CONV2D_KERNEL_H] - 1) * words[AT_CONV2D_DILATION_H] + 1,
                    (words[AT_CONV2D_KERNEL_W] - 1) * words[AT_CONV2D_DILATION_W] + 1, words[AT_CONV2D_STRIDE_H],
                    words[AT_CONV2D_STRIDE_W]};
  if (p->is_wino) {
    w.high = w.wide = (int64_t)p->tile.edge;
    w.down = w.right = (int64_t)(p->tile.side * p->tile.stride);
  }
  return w;
}

at_patch at_patch_of(const at_product* p, const at_block_of_rows* b) {
  const int64_t* words = p->call->words;
  const at_view* src = &p->call->src[0];
  at_patch found;
  const at_footprint w = at_footprint_of(p);
  clip((int64_t)b->y, (int64_t)b->high, w.down, words[AT_CONV2D_TOP], w.high, src->dim[2], &found.y, &found.high);
  clip((int64_t)b->x, (int64_t)b->wide, w.right, words[AT_CONV2D_LEFT], w.wide, src->dim[3], &found.x, &found.wide);
  return found;
}

at_box at_patch_box(const at_product* p, const at_block_of_rows* b, const at_patch* patch, size_t count) {
  const at_view* src = &p->call->src[0];
  at_box box = {.rank = 4,
                .size = p->source,
                .rounds = p->dtype == AT_BF16,
                .dim = {(int64_t)b->images, patch->high, patch->wide, (int64_t)count},
                .memory = {src->stride[0], src->stride[2], src->stride[3], src->stride[1]}};
  bool is_placed[4] = {false};
  int64_t step = 1;
  for (int i = 0; i < 4; ++i) {  // from the innermost on
    int next = -1;
    for (int k = 3; k >= 0; --k) {
      if (!is_placed[k] && (next < 0 || (p->is_stem && box.memory[k] < box.memory[next]))) next = k;
    }
    is_placed[next] = true;
    box.scratchpad[next] = step;
    step *= box.dim[next] > 0 ? box.dim[next] : 1;
  }
  return box;
}

size_t at_blocks(const at_product* p, const at_plan* plan) {
  return at_parts(p->images, plan->images) * at_parts(p->high, plan->high) * at_parts(p->wide, plan->wide);
}

static size_t left(size_t all, size_t from, size_t most) { return all - from < most ? all - from : most; }

at_block_of_rows at_block_number(const at_product* p, const at_plan* plan, size_t number) {
  const size_t across = at_parts(p->wide, plan->wide), down = at_parts(p->high, plan->high);
  at_block_of_rows b = {.x = number % across * plan->wide,
                        .y = number / across % down * plan->high,
                        .image = number / across / down * plan->images};
  b.images = left(p->images, b.image, plan->images);
  b.high = left(p->high, b.y, plan->high);
  b.wide = left(p->wide, b.x, plan->wide);
  return b;
}
