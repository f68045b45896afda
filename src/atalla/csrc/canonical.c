// An exact search for a plan that fits into so many bytes, after the idea of MiniMalloc (Moffitt, ASPLOS 2023).
//
// Only canonical plans are looked at: those in which no buffer can be lowered. Each item has a floor, the lowest offset
// that is left to it. A node takes an item below which nothing else fits any more, and places it at its floor; if that
// fails, the item lies above one of those that it meets, which raises its floor. A node is given up where, at
// some slot, the lowest floor and the bytes that still have to go there exceed the capacity. Items that no longer meet
// are searched on their own. Each floor carries the placed items that it follows from; so does each failure, and nodes
// that have no part in a failure are left without a second look (conflict-directed backjumping; Prosser, 1993).
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "search.h"

static bool is_out(at_search* s) {
  return ++s->nodes > s->limit || (s->deadline && s->nodes % 1024 == 0 && at_now() > s->deadline);
}

static uint64_t* why(const at_search* s, uint32_t number) { return s->why + (size_t)number * s->words; }

static void join(const at_search* s, uint64_t* into, const uint64_t* more) {
  for (uint32_t i = 0; i < s->words; ++i) into[i] |= more[i];
}

// Returns room for so many numbers on the stack of open nodes, and for so many changes.
static bool reserve(at_search* s, size_t numbers, size_t changes) {
  if (s->stack_size + numbers > s->stack_room) {
    const size_t room = 2 * (s->stack_size + numbers);
    uint32_t* more = realloc(s->stack, room * sizeof *more);
    if (!more) return false;
    s->stack = more;
    s->stack_room = room;
  }
  if (s->trail_size + changes > s->trail_room) {
    const size_t room = 2 * (s->trail_size + changes);
    at_change* more = realloc(s->trail, room * sizeof *more);
    if (more) s->trail = more;
    uint64_t* bits = realloc(s->trail_why, room * s->words * sizeof *bits);
    if (bits) s->trail_why = bits;
    if (!more || !bits) return false;
    s->trail_room = room;
  }
  return true;
}

// Returns an item a higher floor, and what it follows from; there is room on the trail.
static void lift(at_search* s, uint32_t number, uint64_t floor, const uint64_t* reason) {
  const size_t bytes = s->words * sizeof *s->why;
  s->trail[s->trail_size] = (at_change){number, s->items[number].floor};
  memcpy(s->trail_why + s->trail_size++ * s->words, why(s, number), bytes);
  s->items[number].floor = floor;
  memmove(why(s, number), reason, bytes);
}

static void lower(at_search* s, size_t trail) {
  while (s->trail_size > trail) {
    const at_change change = s->trail[--s->trail_size];
    s->items[change.number].floor = change.floor;
    memcpy(why(s, change.number), s->trail_why + s->trail_size * s->words, s->words * sizeof *s->why);
  }
}

// Items of the same form lie in the order of their numbers.
static void lift_above(at_search* s, uint32_t number) {
  for (;;) {
    const uint64_t end = s->items[number].floor + s->items[number].size;
    const uint32_t above = s->items[number].above;
    if (above == AT_NO_ITEM || s->items[above].floor >= end) return;
    lift(s, above, end, why(s, number));
    number = above;
  }
}

// Whether what is left can still fit in at every slot, were it cut into bytes; if not, why. Else returns the slot
// that is to be looked at next.
static bool may_fit(at_search* s, size_t begin, uint32_t count, uint32_t* next) {
  uint32_t from = UINT32_MAX, to = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const at_item* one = &s->items[s->stack[begin + i]];
    if (one->from < from) from = one->from;
    if (one->to > to) to = one->to;
  }
  for (uint32_t slot = from; slot <= to; ++slot) {
    s->low[slot] = UINT64_MAX;
    s->options[slot] = 0;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const at_item* one = &s->items[s->stack[begin + i]];
    for (uint32_t slot = one->from; slot <= one->to; ++slot) {
      if (one->floor < s->low[slot]) s->low[slot] = one->floor;
      s->options[slot] += one->floor + s->left[slot] <= s->capacity;
    }
  }
  uint32_t best = from;
  for (uint32_t slot = from; slot <= to; ++slot) {
    if (s->options[slot] == 0) {
      ++s->weight[slot];
      memset(s->conflict, 0, s->words * sizeof *s->conflict);
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t number = s->stack[begin + i];
        if (s->items[number].from <= slot && slot <= s->items[number].to) join(s, s->conflict, why(s, number));
      }
      return false;
    }
    const uint64_t here = (uint64_t)s->options[slot] * s->weight[best],
                   there = (uint64_t)s->options[best] * s->weight[slot];
    const bool fewer = here < there, as_few = here == there;
    const bool lower = s->low[slot] < s->low[best], as_low = s->low[slot] == s->low[best];
    if (s->by_options ? fewer || (as_few && lower) : lower || (as_low && fewer)) best = slot;
  }
  *next = best;
  return true;
}

// Returns the lowest item of a slot, or one that could still come to lie below it.
static uint32_t choose(const at_search* s, size_t begin, uint32_t count, uint32_t slot) {
  uint32_t found = AT_NO_ITEM;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = s->stack[begin + i];
    const at_item* one = &s->items[number];
    if (slot < one->from || one->to < slot) continue;
    const at_item* best = found == AT_NO_ITEM ? NULL : &s->items[found];
    if (!best || one->floor < best->floor || (one->floor == best->floor && one->rank < best->rank)) found = number;
  }
  for (;;) {
    uint32_t under = found;
    const at_item* one = &s->items[found];
    for (uint32_t i = 0; i < one->near; ++i) {
      const uint32_t number = s->near[one->first_near + i];
      const at_item *other = &s->items[number], *least = &s->items[under];
      if (other->placed || other->floor + other->size > one->floor) continue;
      if (under == found || other->floor < least->floor) under = number;
    }
    if (under == found) return found;
    found = under;
  }
}

static void place(at_search* s, uint32_t number, uint64_t* reason) {
  at_item* one = &s->items[number];
  one->placed = true;
  for (uint32_t slot = one->from; slot <= one->to; ++slot) s->left[slot] -= one->size;
  memcpy(reason, why(s, number), s->words * sizeof *reason);
  reason[number / 64] |= (uint64_t)1 << number % 64;
  for (uint32_t i = 0; i < one->near; ++i) {
    const uint32_t other = s->near[one->first_near + i];
    if (s->items[other].placed || s->items[other].floor >= one->floor + one->size) continue;
    lift(s, other, one->floor + one->size, reason);
  }
}

static void unplace(at_search* s, uint32_t number) {
  at_item* one = &s->items[number];
  if (!one->placed) return;
  for (uint32_t slot = one->from; slot <= one->to; ++slot) s->left[slot] += one->size;
  one->placed = false;
}

// An item is not at its floor, which `conflict` says: then it lies upon one that it meets and that is not placed yet.
static void lift_upon(at_search* s, uint32_t number, uint64_t* reason) {
  const at_item* one = &s->items[number];
  uint64_t floor = UINT64_MAX;
  memcpy(reason, s->conflict, s->words * sizeof *reason);
  reason[number / 64] &= ~((uint64_t)1 << number % 64);
  join(s, reason, why(s, number));
  for (uint32_t i = 0; i < one->near; ++i) {
    const uint32_t other = s->near[one->first_near + i];
    const at_item* under = &s->items[other];
    if (!under->placed && under->floor + under->size < floor) floor = under->floor + under->size;
  }
  for (uint32_t i = 0; i < one->near; ++i) {
    const uint32_t other = s->near[one->first_near + i];
    const at_item* under = &s->items[other];
    if (under->size >= floor) continue;  // one must not know more of it
    if (under->placed) reason[other / 64] |= (uint64_t)1 << other % 64;
    if (!under->placed) join(s, reason, why(s, other));
  }
  lift(s, number, floor == UINT64_MAX ? s->capacity : floor, reason);
  lift_above(s, number);
}

// Places the items of a part, in which each meets another through others.
static at_outcome solve(at_search* s, size_t begin, uint32_t count) {
  const size_t base = s->stack_size, start = s->trail_size;
  uint64_t* reason = malloc(s->words * sizeof *reason);
  at_outcome made = AT_FAILED;
  uint32_t slot;
  while (made == AT_FAILED) {
    if (!reason || !reserve(s, count, 2 * (size_t)s->count)) s->no_memory = true;
    if (s->no_memory || is_out(s)) {
      made = AT_GAVE_UP;
      break;
    }
    if (!may_fit(s, begin, count, &slot)) break;
    const uint32_t number = choose(s, begin, count, slot);
    const size_t trail = s->trail_size;
    place(s, number, reason);
    for (uint32_t k = 0; k < count; ++k) {
      if (s->stack[begin + k] != number) s->stack[s->stack_size++] = s->stack[begin + k];
    }
    made = at_search_parts(s, base, count - 1);
    s->stack_size = base;
    if (made == AT_FOUND) break;
    for (uint32_t k = 0; k < count; ++k) unplace(s, s->stack[begin + k]);  // parts before the one that failed, too
    lower(s, trail);
    if (made == AT_GAVE_UP || !(s->conflict[number / 64] >> number % 64 & 1)) break;
    lift_upon(s, number, reason);
  }
  if (made != AT_FOUND) lower(s, start);
  free(reason);
  return made;
}

at_outcome at_search_parts(at_search* s, size_t begin, uint32_t count) {
  for (uint32_t i = 0; i < count;) {
    const uint32_t start = i;
    for (uint32_t to = s->items[s->stack[begin + i]].to; i < count && s->items[s->stack[begin + i]].from <= to; ++i) {
      if (s->items[s->stack[begin + i]].to > to) to = s->items[s->stack[begin + i]].to;
    }
    const at_outcome made = solve(s, begin + start, i - start);
    if (made != AT_FOUND) return made;
  }
  return AT_FOUND;
}
