// The exact search for a plan that fits into so many bytes: what "search.c" and "canonical.c" share.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t size;              // bytes
  uint64_t floor;             // it lies there or above; where it is placed, there
  uint32_t from, to;          // slots
  uint32_t number;            // of the buffer
  uint32_t rank;              // among those that could be placed next, in this try
  uint32_t below, above;      // the items of the same form that lie below and above it, or AT_NO_ITEM
  uint32_t first_near, near;  // those that it meets, in `near`
  bool placed;
} at_item;

typedef struct {
  uint32_t number;
  uint64_t floor;
} at_change;

enum { AT_NO_ITEM = 0xffffffff };

typedef struct {
  at_item* items;
  uint32_t count, slots, words;
  uint32_t *near, *stack;       // numbers of items; those of all open nodes
  uint64_t* why;                // of each item, `words` of bits: the placed items that its floor follows from
  uint64_t* conflict;           // the placed items that the last failure follows from
  uint64_t *full, *left, *low;  // of each slot: bytes of all, of those not placed; the lowest floor of those
  uint32_t* options;            // of each slot: items that could be the next above what is placed
  uint64_t* weight;             // of each slot: how often it was where a node failed
  at_change* trail;             // floors as they were
  uint64_t* trail_why;
  size_t trail_size, trail_room, stack_size, stack_room;
  uint64_t capacity, nodes, limit, deadline;
  uint64_t grain;   // divides all sizes
  bool by_options;  // the next item is of the slot of the fewest options, else of the lowest
  bool no_memory;
} at_search;

typedef enum { AT_FAILED, AT_FOUND, AT_GAVE_UP } at_outcome;

// Places items, which lie on the stack in the order of their first slots.
at_outcome at_search_parts(at_search* search, size_t begin, uint32_t count);

// Makes ready to search for a plan of buffers none of which is empty. 0, or ATALLA_OUT_OF_MEMORY.
int at_search_new(size_t count, const uint64_t* size, const uint32_t* first, const uint32_t* last, at_search** search);
void at_search_free(at_search* search);

// Looks for a plan of `capacity` bytes, at no more than `nodes` nodes. AT_FAILED proves that there is none.
at_outcome at_search_decide(at_search* search, uint64_t capacity, uint64_t nodes);
