// How images are cut: over images, channels, lines and columns; each part reads the lines that its windows reach.
#include "tiles_parts.h"

enum { CHANNELS, IMAGES, LINES, COLUMNS };  // axes: tiles of the same channels follow each other

// Axes of dst; images are cut first, channels last.
static void image_axes(at_tiling* t) {
  const at_view* dst = &t->call.dst;
  at_axis(t, dst->dim[1], AT_PANEL);
  at_axis(t, dst->dim[0], 1);
  at_axis(t, dst->dim[2], 1);
  at_axis(t, dst->dim[3], 1);
  static const uint8_t order[] = {IMAGES, LINES, COLUMNS, CHANNELS};
  memcpy(t->order, order, sizeof order);
}

static void follow_pixels(at_tiling* t, unsigned view) {
  at_follow(t, view, 0, AT_ALONG, IMAGES);
  at_follow(t, view, 1, AT_ALONG, CHANNELS);
  at_follow(t, view, 2, AT_ALONG, LINES);
  at_follow(t, view, 3, AT_ALONG, COLUMNS);
}

// Windows; `at` is the number of the attribute STRIDE_H, behind which all others of a window come.
static void follow_windows(at_tiling* t, unsigned at) {
  const int64_t* words = t->words + at;
  enum { STRIDE, PADDING = 2, DILATION = 6, KERNEL = 8 };
  follow_pixels(t, 0);
  for (unsigned i = 0; i < 2; ++i) {
    t->window[i] = (at_window){.stride = words[STRIDE + i],
                               .dilation = words[DILATION + i],
                               .kernel = words[KERNEL + i],
                               .before = words[PADDING + i],
                               .word = at + PADDING + i};
    at_follow(t, 0, 2 + i, AT_WINDOW, LINES + i);
  }
}

// Filters are [taps, channels], which their view does not say; the numbers of channels follow them.
void at_form_depthwise(at_tiling* t) {
  at_view* filters = &t->call.src[1];
  const int64_t channels = filters->dim[0], taps = filters->dim[1];
  filters->rank = 0;
  at_push_dim(filters, taps, channels);
  at_push_dim(filters, channels, 1);
  image_axes(t);
  follow_pixels(t, AT_SOURCES);
  follow_windows(t, AT_DWCONV2D_STRIDE_H);
  at_follow(t, 1, 1, AT_ALONG, CHANNELS);
  at_follow(t, 2, 0, AT_ALONG, CHANNELS);
  if (t->op == AT_OP_DWCONV2D) {
    follow_pixels(t, 3);
    return;
  }
  at_follow(t, 3, 0, AT_ALONG, CHANNELS);
  at_follow(t, 4, 0, AT_ALONG, CHANNELS);
}

void at_form_pool(at_tiling* t) {
  image_axes(t);
  follow_pixels(t, AT_SOURCES);
  follow_windows(t, AT_POOL2D_STRIDE_H);
}

// The image stays where it is: the grid says what is read of it.
void at_form_sample(at_tiling* t) {
  image_axes(t);
  follow_pixels(t, AT_SOURCES);
  t->in_place = 1;
  at_follow(t, 0, 0, AT_ALONG, IMAGES);
  at_follow(t, 0, 1, AT_ALONG, CHANNELS);
  at_follow(t, 1, 0, AT_ALONG, IMAGES);
  at_follow(t, 1, 1, AT_ALONG, LINES);
  at_follow(t, 1, 2, AT_ALONG, COLUMNS);
}

// Lines of the source that `count` lines from line `from` on read; `have` are there.
at_part at_window_part(const at_window* w, int64_t have, int64_t from, int64_t count) {
  const int64_t first = from * w->stride - w->before;
  const int64_t behind = first + (count - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
  const int64_t begin = at_least(at_most(first, 0), have), end = at_most(at_least(behind, have), begin);
  return (at_part){begin, end - begin, 1};
}

int64_t at_window_most(const at_window* w, int64_t have, int64_t block) {
  return at_least((block - 1) * w->stride + (w->kernel - 1) * w->dilation + 1, have);
}

// A dim of an image of another size, as "resize.h" has it.
typedef struct {
  int64_t kind, have, made;
  float step;
} places;

typedef struct {
  int64_t first, second;
  float share;
} place;

static int is_linear(int64_t kind) { return kind == AT_RESIZE_LINEAR || kind == AT_RESIZE_LINEAR_ALIGNED; }

static places places_of(int64_t kind, int64_t have, int64_t made, double scale) {
  const float step = scale > 0 ? (float)(1.0 / scale) : (float)have / (float)made;
  return (places){kind, have, made, step};
}

static place place_of(const places* p, int64_t number) {
  if (p->made == p->have) return (place){number, number, 0.0f};
  volatile float at = (float)number;  // each operation is rounded, whatever the compiler would make of two
  if (p->kind == AT_RESIZE_NEAREST_EXACT || p->kind == AT_RESIZE_LINEAR) at = at + 0.5f;
  at = at * p->step;
  if (p->kind == AT_RESIZE_LINEAR) at = at > 0.5f ? at - 0.5f : 0.0f;
  const int64_t found = (int64_t)at, first = found < p->have ? found : p->have - 1;
  if (!is_linear(p->kind)) return (place){first, first, 0.0f};
  const float share = at - (float)first;
  return (place){first, first + 1 < p->have ? first + 1 : first, share < 1.0f ? share : 1.0f};
}

static places lines_of(const at_tiling* t) {
  return places_of(t->words[AT_RESIZE2D_KIND], t->call.src[0].dim[2], t->call.dst.dim[2],
                   at_number(t->words[AT_RESIZE2D_SCALE_H]));
}

// One line that lies between two has a scale of its own: such that its place is its share of the second.
static double scale_of(const places* p, int64_t from, int64_t count) {
  if (count > 1 || !is_linear(p->kind)) return 1.0 / (double)p->step;
  return 1.0 / (2.0 * ((double)place_of(p, from).share + 0.5));
}

at_part at_lines_of(const at_tiling* t, int64_t from, int64_t count) {
  const places p = lines_of(t);
  if (count == p.made) return (at_part){0, p.have, 1};
  const place first = place_of(&p, from), last = place_of(&p, from + count - 1);
  if (count == 1 && is_linear(p.kind)) return (at_part){first.first, 2, first.second - first.first};
  return (at_part){first.first, last.second + 1 - first.first, 1};
}

void at_resize_words(const at_tiling* t, int64_t from, int64_t count, int64_t* words) {
  const places p = lines_of(t);
  if (count != p.made) words[AT_RESIZE2D_SCALE_H] = at_word(scale_of(&p, from, count));
}

// Whether some lines, as an image of their own, are what they are in the whole.
static int are_same(const at_tiling* t, int64_t from, int64_t count) {
  const places p = lines_of(t);
  const at_part part = at_lines_of(t, from, count);
  const double scale = scale_of(&p, from, count);
  if (!(scale >= 1.0 / AT_MOST_SCALE && scale <= AT_MOST_SCALE)) return 0;
  const places own = places_of(p.kind, part.count, count, scale);
  if (is_linear(p.kind) && own.made == own.have) return 0;
  for (int64_t i = 0; i < count; ++i) {
    const place whole = place_of(&p, from + i), here = place_of(&own, i);
    if (part.first + here.first * part.every != whole.first || here.share != whole.share) return 0;
    if (part.first + here.second * part.every != whole.second) return 0;
  }
  return 1;
}

int64_t at_most_lines(const at_tiling* t, int64_t block) {
  const places p = lines_of(t);
  if (block == p.made) return p.have;
  int64_t most = 0;
  for (int64_t from = 0; from < p.made; from += block) {
    const int64_t count = p.made - from < block ? p.made - from : block;
    if (!are_same(t, from, count)) return 0;
    const at_part part = at_lines_of(t, from, count);
    const int64_t lines = part.every ? part.count : 1;
    if (lines > most) most = lines;
  }
  return most;
}

// Images and channels; lines and columns where they are those of the source, and lines where parts of them find the
// same places: the nearest ones one by one or by whole steps, and those between two lines one by one.
void at_form_resize(at_tiling* t) {
  image_axes(t);
  follow_pixels(t, AT_SOURCES);
  follow_pixels(t, 0);
  const at_view *src = &t->call.src[0], *dst = &t->call.dst;
  if (src->dim[3] != dst->dim[3]) {
    t->axes = COLUMNS;
    static const uint8_t order[] = {IMAGES, LINES, CHANNELS};
    memcpy(t->order, order, sizeof order);
    at_follow(t, 0, 3, AT_WHOLE, 0);
    at_follow(t, AT_SOURCES, 3, AT_WHOLE, 0);
  }
  if (src->dim[2] == dst->dim[2]) return;
  at_follow(t, 0, 2, AT_PLACES, LINES);
  if (t->words[AT_RESIZE2D_KIND] != AT_RESIZE_LINEAR_ALIGNED && at_most_lines(t, 1) > 0) return;
  t->extent[LINES] = t->block[LINES] = 1;
  at_follow(t, 0, 2, AT_WHOLE, 0);
  at_follow(t, AT_SOURCES, 2, AT_WHOLE, 0);
}
