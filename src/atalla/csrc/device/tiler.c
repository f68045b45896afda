// Tiler: how a product is cut so that it fits into so much room, and of all ways that do the one that should be
// fastest.
#include <string.h>

#include "costs.h"
#include "parts.h"

enum { LEAST_PIECE = 8, PIECES = 6, CHUNKS = 8, BLOCKS = 12 };
enum { MOST_SLOTS = 4 };  // more than engines follow each other: they make nothing faster

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// So many elements of a dim that its parts are even.
static size_t even(size_t all, size_t most) { return all ? at_parts(all, at_parts(all, most ? most : 1)) : 1; }

static size_t columns_of(const at_product* p, const at_plan* plan) { return least(plan->chunk, p->columns); }

at_sizes at_sizes_of(const at_product* p, const at_plan* plan) {
  const size_t rows = plan->images * plan->high * plan->wide, columns = columns_of(p, plan);
  const size_t panels = at_parts(columns, AT_PANEL), depth = plan->is_whole ? p->depth : plan->piece;
  at_sizes s = {.weights = panels * at_parts(plan->by_columns ? p->depth : plan->piece, p->quad) * AT_LINE};
  s.numbers = p->dtype == AT_I8 ? 3 * columns * 4 : p->has_bias ? columns * 4 : 0;
  const size_t side = at_side_of(p), pixels = side * side;
  s.residual = p->has_residual ? rows * pixels * columns * 4 : 0;
  s.sums = rows * pixels * columns * 4;
  if (p->dtype == AT_I8) s.made = rows * columns * p->made;
  if (plan->is_patch) {
    const at_view* src = &p->call->src[0];
    const at_footprint w = at_footprint_of(p);
    const size_t high = least((plan->high - 1) * (size_t)w.down + (size_t)w.high, (size_t)src->dim[2]);
    const size_t wide = least((plan->wide - 1) * (size_t)w.right + (size_t)w.wide, (size_t)src->dim[3]);
    s.rows = plan->images * high * wide * (p->is_wino ? depth : p->channels) * p->element;
  } else {
    s.rows = rows * depth * p->element;
  }
  if (p->is_wino) {
    s.weights *= plan->places;
    s.spread = p->places * rows * depth * 4;
    s.raw = p->places * rows * panels * AT_PANEL * 4;
  }
  return s;
}

// Bytes that are held of each scratchpad: of weights, and of a frame of rows and what is made of them.
typedef struct {
  size_t weights, frame;
} held;

static held held_by(const atalla_hardware* h, const at_product* p, const at_plan* plan) {
  const at_sizes s = at_sizes_of(p, plan);
#define ROOM(BYTES) at_rounded((BYTES) ? (BYTES) : 1, h->align)
  const size_t made = ROOM(s.sums) + ROOM(s.residual) + (p->is_wino ? ROOM(s.raw) : ROOM(s.made));
  held found = {ROOM(s.weights), p->is_wino ? ROOM(s.spread) : 0};
  if (plan->by_columns) {
    found.weights += ROOM(s.numbers);
    found.frame += ROOM(s.rows) + made;
  } else {
    found.frame +=
        ROOM(s.rows) * (plan->is_whole || p->is_wino ? 1 : plan->ring) + (made + ROOM(s.numbers)) * plan->ring;
  }
#undef ROOM
  return found;
}

at_slots at_slots_of(const atalla_hardware* h, const at_product* p, const at_plan* plan, size_t room) {
  const held of = held_by(h, p, plan);
  return (at_slots){room / of.frame, room / of.weights};
}

static at_box box_of_block(const at_product* p, const at_block_of_rows* b, size_t depth) {
  if (!p->is_window) return at_rows_box(p, b, depth);
  const at_patch patch = at_patch_of(p, b);
  return at_patch_box(p, b, &patch, depth);
}

// What loading the rows of a block costs, of so much depth.
static at_cost rows_cost(const atalla_hardware* h, const at_product* p, const at_plan* plan, const at_block_of_rows* b,
                         size_t depth) {
  if (!p->is_window || plan->is_patch) {
    const at_box box = box_of_block(p, b, p->is_window && !p->is_wino ? p->channels : depth);
    return at_box_cost(h, &box);
  }
  const uint64_t wide = h->dma_bytes_per_cycle, taps = at_parts(depth, p->channels ? p->channels : 1);
  const bool is_dense = p->call->src[0].stride[1] == 1 || p->channels == 1;
  const uint64_t run = (is_dense ? least(depth, p->channels) : 1) * p->source, each = is_dense ? 1 : p->channels;
  const uint64_t runs = taps * each * at_rows_of(b), descriptors = taps * each * b->images;
  return (at_cost){descriptors * h->dma_latency_cycles + runs * ((run + wide - 1) / wide), runs * run, descriptors};
}

static uint64_t estimate(const atalla_hardware* h, const at_product* p, const at_plan* plan, at_slots slots) {
  const size_t blocks = at_blocks(p, plan), chunks = at_parts(p->columns, plan->chunk);
  const at_block_of_rows b = at_block_number(p, plan, blocks / 2);
  const size_t rows = at_rows_of(&b), columns = columns_of(p, plan), size = h->array;
  const uint64_t all = (uint64_t)blocks * p->groups, width = h->dma_bytes_per_cycle, latency = h->dma_latency_cycles;
  const uint64_t pieces = plan->by_columns ? 1 : at_parts(p->depth, plan->piece);
  const uint64_t places = p->places, groups_of_places = at_parts(places, plan->places), side = at_side_of(p);
  const at_sizes s = at_sizes_of(p, plan);
  const uint64_t weight_bytes = (uint64_t)at_parts(columns, AT_PANEL) * AT_LINE * at_parts(p->depth, p->quad) * places;
  const uint64_t weight_loads = plan->by_columns ? 1 : pieces * groups_of_places;
  const uint64_t weights =
      weight_bytes / width + weight_loads * latency + s.numbers / width + (s.numbers ? latency : 0);
  const uint64_t pixels = (uint64_t)rows * side * side * columns;
  const uint64_t lines = b.high * b.images * side;
  const uint64_t made = pixels * p->made / width + lines + latency,
                 residual = s.residual ? pixels * 4 / width + lines + latency : 0;
  const bool again = !plan->is_whole;  // rows are loaded for each chunk
  uint64_t first_rows = rows_cost(h, p, plan, &b, p->depth).cycles + (again ? (pieces - 1) * latency : 0);
  uint64_t load, first;
  if (plan->by_columns) {
    load = p->groups * chunks * (weights + blocks * (first_rows + residual));
    first = weights + first_rows;
  } else {
    load = all * ((again ? chunks : 1) * first_rows + chunks * (weights + residual));
    first = first_rows / (again ? pieces : 1) + weights / weight_loads;
  }
  uint64_t chain = 0;
  for (size_t at = 0; at < p->depth; at += plan->by_columns ? p->depth : plan->piece) {
    const size_t end = plan->by_columns ? p->depth : least(p->depth, at + plan->piece);
    chain += at_chain_cycles(h, p, rows, at, end) * places;
  }
  const uint64_t of_columns = at_parts(p->columns, size);
  const uint64_t sums = (uint64_t)rows * places,
                 matrix = all * of_columns * (chain + sums * (p->has_bias && !p->is_wino ? 2 : 1));
  const uint64_t finish =
      at_vector_cycles(h, pixels, at_finish_steps(p->dtype == AT_I8, p->has_residual, at_activation_of(p)));
  uint64_t vector = all * chunks * finish,
           issues = all * (of_columns * pieces * places + chunks * 6 + chunks * weight_loads);
  if (p->is_wino) {
    vector += all * (plan->is_whole && !plan->by_columns ? 1 : chunks) *
              at_vector_cycles(h, places * rows * p->depth, at_spread_steps(p->tile.edge));
    vector += all * chunks * at_vector_cycles(h, pixels, at_gather_steps(p->tile.edge));
  }
  const uint64_t store = all * chunks * made, issue = issues * h->issue_cycles;
  uint64_t most = at_most(at_most(load, matrix), at_most(at_most(vector, store), issue));
  const uint64_t one_way = load + matrix + vector + store;
  if (all * (plan->by_columns ? chunks : 1) > 1) {  // frames follow each other
    if (plan->by_columns)
      most = at_most(most, one_way / slots.frames);
    else if (slots.frames == 1)
      most += all * (first + finish + made);
  }
  if (!plan->by_columns && chunks > 1) most = at_most(most, (matrix + vector + store) / plan->ring);
  if (chunks * pieces * groups_of_places > 1) {
    most = at_most(most, (all * chunks * (plan->by_columns ? weights / blocks : weights) + matrix) / slots.weights);
  }
  return most + first + finish + made;
}

typedef struct {
  const atalla_hardware* hardware;
  const at_product* product;
  at_plan_choice* choices;
  size_t count;
} search;

static void consider(search* s, const at_plan* plan) {
  const held of = held_by(s->hardware, s->product, plan);
  const size_t least_room = of.weights > of.frame ? of.weights : of.frame;
  at_slots before = {0, 0};
  uint64_t known = 0;
  for (size_t i = 0; i < s->count; ++i) {
    at_plan_choice* c = &s->choices[i];
    if (least_room > c->room) continue;
    at_slots slots = at_slots_of(s->hardware, s->product, plan, c->room);
    if (slots.frames > MOST_SLOTS) slots.frames = MOST_SLOTS;
    if (slots.weights > MOST_SLOTS) slots.weights = MOST_SLOTS;
    if (slots.frames != before.frames || slots.weights != before.weights) {
      known = estimate(s->hardware, s->product, plan, slots) + 1;
      before = slots;
    }
    if (c->expected && c->expected <= known) continue;
    c->expected = known;
    c->plan = *plan;
  }
}

// Pieces of the depth, from whole to small; each a multiple of what tiles and pairs take.
static size_t pieces_of(const atalla_hardware* h, const at_product* p, size_t pieces[PIECES]) {
  const size_t unit = p->dtype == AT_BF16 || h->array < 32 ? 32 : h->array,
               smallest = p->dtype == AT_F32 ? LEAST_PIECE : 32;
  size_t count = 0, piece = p->depth ? p->depth : 1;
  pieces[count++] = piece;
  while (count < PIECES && piece > smallest) {
    const size_t half = at_parts(piece, count < 3 ? 2 : 4);
    piece = half > unit          ? at_rounded(half, unit)
            : smallest > half    ? smallest
            : p->dtype == AT_F32 ? at_rounded(half, LEAST_PIECE)
                                 : 32;
    if (piece >= pieces[count - 1]) break;
    pieces[count++] = piece;
  }
  if (pieces[count - 1] > smallest) pieces[count < PIECES ? count++ : count - 1] = smallest;
  return count;
}

static void consider_chunk(search* s, at_plan plan) {
  const at_product* p = s->product;
  const atalla_hardware* h = s->hardware;
  const size_t rows = plan.images * plan.high * plan.wide * p->places;
  plan.by_columns = plan.is_whole = true;
  plan.ring = 1;
  plan.piece = p->depth ? p->depth : 1;
  plan.places = p->places;
  if (p->is_wino ? rows * at_parts(columns_of(p, &plan), h->array) <= h->accumulator_rows : true) consider(s, &plan);
  if (rows * at_parts(columns_of(p, &plan), h->array) > h->accumulator_rows) return;
  size_t pieces[PIECES];
  const size_t count = pieces_of(h, p, pieces);
  plan.by_columns = false;
  for (size_t i = 0; i < count; ++i) {
    plan.piece = pieces[i];
    for (plan.places = p->places; plan.places >= 1; plan.places /= p->tile.edge) {
      for (plan.ring = 2; plan.ring >= 1; --plan.ring) {
        plan.is_whole = true;
        consider(s, &plan);
        plan.is_whole = false;
        if (i > 0 && (p->is_wino || !plan.is_patch)) consider(s, &plan);
      }
      if (!p->is_wino) break;
    }
  }
}

void at_choose_plans(const atalla_hardware* h, const at_product* p, at_plan_choice* choices, size_t count) {
  search s = {h, p, choices, count};
  for (size_t i = 0; i < count; ++i) choices[i].expected = 0;
  size_t most = h->accumulator_rows / p->places, seen = 0;
  at_plan before = {.images = 0};
  const size_t pixels = p->high * p->wide, whole = at_rounded(p->columns, p->blank);
  if (most > p->images * pixels) most = p->images * pixels;
  for (size_t target = most; target >= 1; target = target > 8 ? target / 2 : target > 1 ? 1 : 0) {
    at_plan plan = {.images = 1, .high = 1};
    plan.wide = even(p->wide, target);
    if (target >= p->wide) plan.high = even(p->high, target / p->wide);
    if (target >= pixels && p->from.outer <= 1) plan.images = even(p->images, target / pixels);
    if (plan.images == before.images && plan.high == before.high && plan.wide == before.wide) continue;
    before = plan;
    if (++seen > BLOCKS) break;
    for (int patch = p->is_window; patch >= 0; --patch) {
      plan.is_patch = patch;
      if (!patch && p->is_wino) break;
      size_t last = 0;
      for (size_t parts = 1, i = 0; i < CHUNKS; ++i, parts *= 2) {
        plan.chunk = at_rounded(at_parts(whole, parts), p->blank);
        if (i + 1 == CHUNKS) plan.chunk = p->blank;
        if (plan.chunk == last) break;
        last = plan.chunk;
        consider_chunk(&s, plan);
      }
    }
  }
}
