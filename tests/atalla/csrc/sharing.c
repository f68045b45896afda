// What threads share, by runs that are not run: each line of the input is a number of runs, and how many nanoseconds
// one takes with each threshold; each line of the output, how many of these runs each threshold had, and which stays.
#include "sharing.h"

#include <stdio.h>

struct at_pool {
  unsigned threads;
};

unsigned at_pool_threads(const at_pool* pool) { return pool->threads; }

int main(void) {
  at_pool pool = {2}, alone = {1};
  at_call calls[] = {{.work = 1 << 16}, {.work = 1 << 18}, {.work = 1 << 21}};
  sharing s = {.calls = calls, .count = 3, .pool = &pool, .alone = &alone};
  begin_sharing(&s);
  if (s.is_settled || s.shared != (1 << 18) + (1 << 21)) return 1;
  unsigned runs, nanoseconds[4];
  while (scanf("%u %u %u %u %u", &runs, &nanoseconds[0], &nanoseconds[1], &nanoseconds[2], &nanoseconds[3]) == 5) {
    unsigned had[4] = {0}, choice = 0;
    for (unsigned run = 0; run < runs; ++run) {
      begin_run(&s);
      choice = 0;
      for (int i = 0; i < 3; ++i) choice += calls[i].pool == &alone;
      ++had[choice];
      end_run(&s, nanoseconds[choice]);
    }
    choice = 0;
    for (int i = 0; i < 3; ++i) choice += calls[i].pool == &alone;
    printf("%u %u %u %u %u\n", had[0], had[1], had[2], had[3], choice);
  }
  calls[0].work = calls[1].work = calls[2].work = 1 << 25;
  begin_sharing(&s);
  if (!s.is_settled || calls[0].pool != &pool) return 2;
  pool.threads = 1;
  calls[0].work = 1 << 18;
  begin_sharing(&s);
  return s.is_settled ? 0 : 3;
}
