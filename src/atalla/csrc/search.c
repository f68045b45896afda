// The exact search: from buffers to slots of time, and tries with several orders and ever more nodes.
#include "search.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { FIRST_SHARE = 1000, ROUND = 8 };  // nodes of the first tries; tries before they get more

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static int by_number(const void* x, const void* y) {
  const uint32_t a = *(const uint32_t*)x, b = *(const uint32_t*)y;
  return a < b ? -1 : a > b;
}

// Index of the last step that is not above `step`; -1 if there is none. Steps are in order.
static int64_t last_at(const uint32_t* steps, uint32_t count, uint32_t step) {
  int64_t low = -1, high = count;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    *(steps[middle] <= step ? &low : &high) = middle;
  }
  return low;
}

// Returns steps such that whoever meets at any step meets at one of them: those after which nothing begins before
// something ends.
static uint32_t slots_of(size_t count, const uint32_t* first, const uint32_t* last, uint32_t* steps) {
  memcpy(steps, first, count * sizeof *steps);
  qsort(steps, count, sizeof *steps, by_number);
  uint32_t begins = 0, kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!begins || steps[begins - 1] != steps[i]) steps[begins++] = steps[i];
  }
  bool* ends = calloc(begins, sizeof *ends);  // whether something ends before the next begins
  if (!ends) return 0;
  for (size_t i = 0; i < count; ++i) ends[last_at(steps, begins, last[i])] = true;
  for (uint32_t i = 0; i < begins; ++i) {
    if (ends[i]) steps[kept++] = steps[i];
  }
  free(ends);
  return kept;
}

static int by_slot(const void* x, const void* y) {
  const at_item *a = x, *b = y;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static bool meet(const at_item* a, const at_item* b) { return a->from <= b->to && b->from <= a->to; }

// Fills in who meets whom, and who is like one before.
static int find_near(at_search* s) {
  size_t all = 0;
  for (int round = 0; round < 2; ++round) {
    all = 0;
    for (uint32_t i = 0; i < s->count; ++i) {
      at_item* one = &s->items[i];
      one->first_near = (uint32_t)all;
      one->near = 0;
      if (!round) one->below = one->above = AT_NO_ITEM;
      for (uint32_t k = 0; k < s->count; ++k) {
        const at_item* other = &s->items[k];
        if (k == i || !meet(one, other)) continue;
        if (round) s->near[all] = k;
        ++all;
        ++one->near;
        if (k > i || one->from != other->from || one->to != other->to || one->size != other->size) continue;
        one->below = k;
        s->items[k].above = i;
      }
    }
    if (!round && !(s->near = malloc((all ? all : 1) * sizeof *s->near))) return ATALLA_OUT_OF_MEMORY;
  }
  return ATALLA_OK;
}

int at_search_new(size_t count, const uint64_t* size, const uint32_t* first, const uint32_t* last, at_search** result) {
  at_search* s = calloc(1, sizeof *s);
  uint32_t* steps = malloc(count * sizeof *steps);
  if (s && steps) {
    s->count = (uint32_t)count;
    s->slots = slots_of(count, first, last, steps);
    s->stack_room = 4 * count;
    s->items = calloc(count, sizeof *s->items);
    s->full = calloc(count, sizeof *s->full);
    s->left = calloc(count, sizeof *s->left);
    s->low = calloc(count, sizeof *s->low);
    s->stack = calloc(s->stack_room, sizeof *s->stack);
    s->options = calloc(count, sizeof *s->options);
    s->words = (uint32_t)((count + 63) / 64);
    s->why = calloc(count * s->words, sizeof *s->why);
    s->weight = calloc(count, sizeof *s->weight);
    s->conflict = calloc(s->words, sizeof *s->conflict);
  }
  if (!s || !steps || !s->slots || !s->items || !s->full || !s->left || !s->low || !s->stack || !s->options ||
      !s->why || !s->conflict || !s->weight) {
    free(steps);
    at_search_free(s);
    return ATALLA_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t from = first[i] ? (uint32_t)(last_at(steps, s->slots, first[i] - 1) + 1) : 0;
    s->items[i] =
        (at_item){.size = size[i], .from = from, .to = (uint32_t)last_at(steps, s->slots, last[i]), .number = i};
    for (uint32_t slot = from; slot <= s->items[i].to; ++slot) s->full[slot] += size[i];
    uint64_t a = s->grain, b = size[i];
    while (b) {
      const uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    s->grain = a;
  }
  free(steps);
  qsort(s->items, count, sizeof *s->items, by_slot);
  const int status = find_near(s);
  if (status) {
    at_search_free(s);
    return status;
  }
  *result = s;
  return ATALLA_OK;
}

void at_search_free(at_search* s) {
  if (!s) return;
  free(s->items);
  free(s->near);
  free(s->stack);
  free(s->full);
  free(s->left);
  free(s->low);
  free(s->options);
  free(s->weight);
  free(s->why);
  free(s->conflict);
  free(s->trail);
  free(s->trail_why);
  free(s);
}

typedef struct {
  uint64_t key[3];
  uint32_t number;
} ranked;

static int by_keys(const void* x, const void* y) {
  const ranked *a = x, *b = y;
  for (int i = 0; i < 3; ++i) {
    if (a->key[i] != b->key[i]) return a->key[i] > b->key[i] ? -1 : 1;
  }
  return a->number < b->number ? -1 : a->number > b->number;
}

// Ranks items by the fullest slot that they lie in, by their span, and by both times size; later tries mix by chance.
static void rank(at_search* s, unsigned attempt, ranked* rows) {
  uint64_t chance = 0x9e3779b97f4a7c15u * (attempt + 1);
  for (uint32_t i = 0; i < s->count; ++i) {
    const at_item* one = &s->items[i];
    uint64_t total = 0;
    for (uint32_t slot = one->from; slot <= one->to; ++slot) total = most(total, s->full[slot]);
    const uint64_t span = one->to - one->from + 1;
    const uint64_t area = one->size > UINT64_MAX / span ? UINT64_MAX : one->size * span;
    const uint64_t keys[4][3] = {{total, span, area}, {total, area, span}, {span, area, total}, {area, span, total}};
    rows[i].number = i;
    memcpy(rows[i].key, keys[attempt / 2 % 4], sizeof rows[i].key);
    if (attempt >= ROUND) {
      chance ^= chance << 13;
      chance ^= chance >> 7;
      chance ^= chance << 17;
      rows[i].key[0] = rows[i].key[0] * (16 + chance % 8) / 16;
    }
  }
  qsort(rows, s->count, sizeof *rows, by_keys);
  for (uint32_t i = 0; i < s->count; ++i) s->items[rows[i].number].rank = i;
}

// One try: from nothing, with the ranks that the items have.
static at_outcome attempt(at_search* s, uint64_t limit) {
  const uint64_t all = s->limit;
  if (s->nodes + limit < s->limit) s->limit = s->nodes + limit;
  memcpy(s->left, s->full, s->slots * sizeof *s->left);
  s->trail_size = 0;
  s->stack_size = s->count;
  for (uint32_t i = 0; i < s->count; ++i) {
    at_item* one = &s->items[i];
    one->floor = one->below == AT_NO_ITEM ? 0 : s->items[one->below].floor + one->size;
    one->placed = false;
    s->stack[i] = i;
  }
  memset(s->why, 0, (size_t)s->count * s->words * sizeof *s->why);
  const at_outcome made = at_search_parts(s, 0, s->count);
  s->limit = all;
  return made;
}

at_outcome at_search_decide(at_search* s, uint64_t capacity, uint64_t nodes) {
  ranked* rows = malloc(s->count * sizeof *rows);
  s->no_memory = !rows;
  if (!rows) return AT_GAVE_UP;
  s->capacity = capacity;
  s->limit = s->nodes + nodes;
  for (uint32_t i = 0; i < s->slots; ++i) s->weight[i] = 1;
  at_outcome made = AT_GAVE_UP;
  uint64_t share = FIRST_SHARE;
  for (unsigned n = 0; made == AT_GAVE_UP && s->nodes < s->limit && !s->no_memory; ++n) {
    if (s->deadline && at_now() > s->deadline) break;
    if (n && n % ROUND == 0) share *= 4;
    s->by_options = n % 2 == 0;
    rank(s, n, rows);
    made = attempt(s, share);
  }
  free(rows);
  return made;
}
