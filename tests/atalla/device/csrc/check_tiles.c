// Runs random calls, or the instructions of programs, in tiles; or programs on random hardware.
//
// check_tiles random ISA OPERATION FIRST COUNT
// check_tiles programs ISA FILE...
// check_tiles pairs ISA SEED FIRST COUNT FILE...  (ISA -: the best)
//
// Of tiles it says how many calls and tiles there were, how many tiles at least, rooms that were too small, and tiles
// that read or write where a view lies though no data say which part of it; and the smallest room for all. Of pairs it
// says how many ran, were refused at first, were tried with larger scratchpads, and ran with data.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_calls.h"
#include "programs.h"
#include "random_calls.h"
#include "try_pairs.h"

static void random_calls(checking* c, char** arguments) {
  const uint16_t op = (uint16_t)atoi(arguments[0]);
  const uint64_t first = strtoull(arguments[1], NULL, 10), count = strtoull(arguments[2], NULL, 10);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    made m = {.state = seed * 1000003u + op, .odd = seed % 4 == 0};
    at_call call;
    make_call(&m, op, &call);
    c->seed = seed;
    check_call(c, op, &call, m.blocks[AT_SOURCES], m.bytes[AT_SOURCES], ONE_OF(&m, size_t, 1, 16, 64));
    drop_views(&m);
  }
}

int main(int count, char** arguments) {
  if (count < 4) return 2;
  if (strcmp(arguments[1], "pairs") == 0) {
    if (count < 7) return 2;
    const uint64_t seed = strtoull(arguments[3], NULL, 10), first = strtoull(arguments[4], NULL, 10);
    const uint64_t pairs = strtoull(arguments[5], NULL, 10);
    const pairing p = try_pairs(arguments[2], seed, first, pairs, arguments + 6, (size_t)count - 6);
    printf("%zu %zu %zu %zu\n", p.ran, p.refused, p.larger, p.with_data);
    return 0;
  }
  checking c = {.kernels = at_choose(arguments[2])};
  if (!c.kernels || at_pool_new(1, &c.pool) != ATALLA_OK) return 2;
  if (strcmp(arguments[1], "programs") == 0) {
    for (int i = 3; i < count; ++i) check_program(&c, arguments[i]);
  } else if (count == 6) {
    random_calls(&c, arguments + 3);
  }
  at_pool_free(c.pool);
  printf("%zu %zu %zu %zu %zu %zu\n", c.calls, c.tiles, c.bound, c.refused, c.in_place, c.least);
  return c.calls == 0;
}
