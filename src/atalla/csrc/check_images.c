// What must hold of what finds its pixels by numbers: RESIZE2D, SAMPLE2D.
#include "check_parts.h"

static bool is_scale(double scale) { return scale == 0 || (scale >= 1.0 / AT_MOST_SCALE && scale <= AT_MOST_SCALE); }

int at_check_resize(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *dst = l->dst;
  if (!is_image(src) || !is_image(dst) || src->dim[0] != dst->dim[0] || src->dim[1] != dst->dim[1])
    return AT_BAD_OPERANDS;
  if (src->dim[2] == 0 || src->dim[3] == 0) return AT_BAD_OPERANDS;
  if (!in_range(word(l, AT_RESIZE2D_KIND), 0, AT_RESIZE_COUNT - 1)) return AT_BAD_ATTRIBUTE;
  const bool scaled =
      is_scale(at_number(word(l, AT_RESIZE2D_SCALE_H))) && is_scale(at_number(word(l, AT_RESIZE2D_SCALE_W)));
  return scaled ? 0 : AT_BAD_ATTRIBUTE;
}

int at_check_sample(const resolved_insn* l) {
  const at_tensor *src = l->src[0], *grid = l->src[1], *dst = l->dst;
  if (!is_image(src) || !is_image(dst) || src->dim[0] != dst->dim[0] || src->dim[1] != dst->dim[1])
    return AT_BAD_OPERANDS;
  if (src->dim[2] == 0 || src->dim[3] == 0 || !is_strided(grid, AT_F32) || grid->rank != 4) return AT_BAD_OPERANDS;
  const int64_t wanted[] = {dst->dim[0], dst->dim[2], dst->dim[3], 2};
  for (int i = 0; i < 4; ++i) {
    if (grid->dim[i] != wanted[i]) return AT_BAD_OPERANDS;
  }
  const bool known = in_range(word(l, AT_SAMPLE2D_KIND), 0, AT_SAMPLE_COUNT - 1) &&
                     in_range(word(l, AT_SAMPLE2D_OUTSIDE), 0, AT_OUTSIDE_COUNT - 1) &&
                     in_range(word(l, AT_SAMPLE2D_ALIGNED), 0, 1);
  return known ? 0 : AT_BAD_ATTRIBUTE;
}
