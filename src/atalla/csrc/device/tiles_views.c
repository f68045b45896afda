// Views that are copied to dense memory, dims that become one, and the order in which kernels add up.
#include "tiles_parts.h"

static int64_t size_of_step(int64_t stride) { return stride < 0 ? -stride : stride; }

// Numbers of the dims among `dims`, the one with the largest steps first, equals in the order of their numbers.
static unsigned in_order(const at_view* view, uint32_t dims, unsigned* order) {
  unsigned count = 0;
  for (unsigned d = 0; d < view->rank; ++d) {
    if (!(dims >> d & 1)) continue;
    unsigned at = count++;
    for (; at > 0 && size_of_step(view->stride[order[at - 1]]) < size_of_step(view->stride[d]); --at) {
      order[at] = order[at - 1];
    }
    order[at] = d;
  }
  return count;
}

size_t at_dense(const at_view* view, at_view* dense) {
  unsigned order[AT_DIMS];
  size_t step = 1;
  *dense = *view;
  for (unsigned i = in_order(view, ~0u, order); i-- > 0;) {
    const unsigned d = order[i];
    if (view->stride[d] == 0) continue;
    dense->stride[d] = (int64_t)step;
    step *= (size_t)(view->dim[d] > 1 ? view->dim[d] : 1);
  }
  return at_elements(view) ? step * at_size(view->dtype) : 0;
}

at_merged at_merge(const at_view* const* views, unsigned count, uint32_t dims) {
  unsigned order[AT_DIMS];
  const unsigned all = in_order(views[0], dims, order);
  at_merged made = {.rank = 0};
  for (unsigned i = 0; i < all; ++i) {
    const unsigned d = order[i];
    const int64_t extent = views[0]->dim[d];
    if (extent == 1) continue;
    int joins = made.rank > 0;
    for (unsigned v = 0; v < count && joins; ++v) {
      joins = made.stride[v][made.rank - 1] == views[v]->stride[d] * extent;
    }
    if (joins) {
      made.dim[made.rank - 1] *= extent;
    } else {
      made.dim[made.rank++] = extent;
    }
    for (unsigned v = 0; v < count; ++v) made.stride[v][made.rank - 1] = views[v]->stride[d];
  }
  return made;
}

void at_push_dim(at_view* view, int64_t dim, int64_t stride) {
  view->dim[view->rank] = dim;
  view->stride[view->rank++] = stride;
}

void at_put_dims(at_view* view, const at_merged* merged, unsigned which) {
  memset(view->dim, 0, sizeof view->dim);
  memset(view->stride, 0, sizeof view->stride);
  view->rank = 0;
  for (unsigned i = 0; i < merged->rank; ++i) at_push_dim(view, merged->dim[i], merged->stride[which][i]);
}

enum { SHORT = 4 };  // elements of a row that no vector holds more of than one

// How REDUCE and NORM add up; see "fold.h" and "reduce.h".
typedef struct {
  int by_lanes, by_vectors, whole_vectors;
} summing;

static summing summing_of_reduce(const at_call* call) {
  const at_view *src = &call->src[0], *dst = &call->dst;
  const int64_t kind = call->words[AT_REDUCE_KIND], dims = call->words[AT_REDUCE_DIMS];
  const int sums = kind == AT_REDUCE_SUM || kind == AT_REDUCE_MEAN || kind == AT_REDUCE_VAR;
  summing found = {0, 0, 0};
  if (!sums || src->dtype != AT_F32) return found;
  int last = -1, first_dense = -1;
  for (int d = 0; d < src->rank; ++d) {
    if (dims >> d & 1) {
      found.by_vectors = src->stride[d] == 1 && src->dim[d] >= SHORT;
      continue;
    }
    last = d;
    if (first_dense < 0 && src->stride[d] == 1) first_dense = d;
  }
  if (last >= 0 && src->stride[last] != 1 && first_dense >= 0) last = first_dense;
  found.by_lanes = last >= 0 && src->stride[last] == 1 && dst->stride[last] == 1;
  if (found.by_lanes) found.by_vectors = 0;
  return found;
}

static summing summing_of_norm(const at_call* call) {
  const at_view *src = &call->src[0], *dst = &call->dst;
  const unsigned last = src->rank - 1u;
  if (src->dim[last] < SHORT) return (summing){0, 0, 0};
  const int is_dense = src->stride[last] == 1;
  return (summing){.by_vectors = is_dense, .whole_vectors = is_dense && dst->stride[last] == 1};
}

int at_same_way(uint16_t op, const at_call* one, const at_call* other) {
  if (op != AT_OP_REDUCE && op != AT_OP_NORM) return 1;
  const summing a = op == AT_OP_REDUCE ? summing_of_reduce(one) : summing_of_norm(one);
  const summing b = op == AT_OP_REDUCE ? summing_of_reduce(other) : summing_of_norm(other);
  return a.by_lanes == b.by_lanes && a.by_vectors == b.by_vectors && a.whole_vectors == b.whole_vectors;
}
