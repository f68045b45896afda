// Storages that are alive at once do not share memory: a sweep over time, with those that are alive in the order of
// their places, so that a new one is compared with its two neighbours only.
#include <stdlib.h>

#include "check.h"

enum { LEVELS = 4 };  // 64^4 numbers

// Numbers; a bit for each, and above each word of bits a bit that says whether it has any.
typedef struct {
  uint64_t* level[LEVELS];
  size_t words[LEVELS];
} numbers;

static const size_t NONE = SIZE_MAX;

static void add(numbers* set, size_t x) {
  for (int l = 0; l < LEVELS; ++l, x >>= 6) set->level[l][x >> 6] |= (uint64_t)1 << (x & 63);
}

static void drop(numbers* set, size_t x) {
  for (int l = 0; l < LEVELS; ++l, x >>= 6) {
    if (set->level[l][x >> 6] &= ~((uint64_t)1 << (x & 63))) return;
  }
}

// The least number of the set that is not below x.
static size_t next(const numbers* set, size_t x) {
  for (int l = 0; l < LEVELS && x >> 6 < set->words[l]; ++l, x = (x >> 6) + 1) {
    const uint64_t bits = set->level[l][x >> 6] >> (x & 63);
    if (!bits) continue;
    x += (size_t)__builtin_ctzll(bits);
    while (l-- > 0) x = x << 6 | (size_t)__builtin_ctzll(set->level[l][x]);
    return x;
  }
  return NONE;
}

// The largest number of the set that is below x.
static size_t previous(const numbers* set, size_t x) {
  for (int l = 0; l < LEVELS && x > 0; ++l, x >>= 6) {
    --x;
    const uint64_t bits = set->level[l][x >> 6] << (63 - (x & 63));
    if (!bits) continue;
    x -= (size_t)__builtin_clzll(bits);
    while (l-- > 0) x = x << 6 | (size_t)(63 - __builtin_clzll(set->level[l][x]));
    return x;
  }
  return NONE;
}

typedef struct {
  uint64_t begin, end;
  uint32_t first, last;
} block;

typedef struct {
  uint32_t step, block;
} event;

static int by_begin(const void* a, const void* b) {
  const uint64_t x = ((const block*)a)->begin, y = ((const block*)b)->begin;
  return x < y ? -1 : x > y;
}

static int by_step(const void* a, const void* b) {
  const uint32_t x = ((const event*)a)->step, y = ((const event*)b)->step;
  return x < y ? -1 : x > y;
}

static int sweep(const block* blocks, const event* starts, const event* ends, size_t count, numbers* alive) {
  size_t ended = 0;
  for (size_t i = 0; i < count; ++i) {
    for (; ends[ended].step < starts[i].step; ++ended) drop(alive, ends[ended].block);
    const size_t one = starts[i].block, below = previous(alive, one), above = next(alive, one);
    if (below != NONE && blocks[below].end > blocks[one].begin) return AT_BAD_OVERLAP;
    if (above != NONE && blocks[above].begin < blocks[one].end) return AT_BAD_OVERLAP;
    add(alive, one);
  }
  return 0;
}

int at_check_overlap(const atalla_blob* blob, const at_life* lives, uint8_t space) {
  size_t room = 1, words = 0, count = 0;
  numbers alive;
  for (uint32_t i = 0; i < blob->tensor_count; ++i) room += blob->tensors[i].space == space;
  for (size_t l = 0, bits = room; l < LEVELS; ++l) words += alive.words[l] = bits = (bits + 63) / 64;
  block* blocks = malloc(room * sizeof *blocks);
  event* events = malloc(2 * room * sizeof *events);
  alive.level[0] = calloc(words, sizeof(uint64_t));
  int fault = ATALLA_OUT_OF_MEMORY;
  if (blocks && events && alive.level[0]) {
    for (int l = 1; l < LEVELS; ++l) alive.level[l] = alive.level[l - 1] + alive.words[l - 1];
    for (uint32_t i = 0; i < blob->tensor_count; ++i) {
      const at_tensor* t = &blob->tensors[i];
      if (t->root != i || t->space != space || t->bytes == 0) continue;
      const uint64_t begin = (uint64_t)t->place, end = begin + t->bytes;
      if (space == AT_STATE) {
        blocks[count++] = (block){begin, end, 0, AT_NOTHING};
      } else if (lives[i].first != AT_NOTHING) {
        blocks[count++] = (block){begin, end, lives[i].first, lives[i].last};
      }
    }
    qsort(blocks, count, sizeof *blocks, by_begin);
    for (uint32_t i = 0; i < count; ++i) {
      events[i] = (event){blocks[i].first, i};
      events[count + i] = (event){blocks[i].last, i};
    }
    qsort(events, count, sizeof *events, by_step);
    qsort(events + count, count, sizeof *events, by_step);
    fault = sweep(blocks, events, events + count, count, &alive);
  }
  free(alive.level[0]);
  free(events);
  free(blocks);
  return fault;
}
