// Whether small rounds have both threads: without a call before them, after one for little work, and after one for
// much. A thread that is woken needs a processor, too, so that is tried for a while.
#include <stdio.h>
#include <time.h>

#include "pool.c"

enum { ROUNDS = 20, PATIENT_S = 20 };

static atomic_uint seen[2];

static void body(void* argument, size_t item, unsigned thread) {
  (void)argument, (void)item;
  atomic_store(&seen[thread], 1);
  for (int i = 0; i < 1000 && !(atomic_load(&seen[0]) && atomic_load(&seen[1])); ++i) look_again();
}

static int is_shared(at_pool* pool, size_t work) {
  at_pool_wake(pool, work);
  for (int i = 0; i < 1000 && work && atomic_load(&pool->asleep); ++i) look_again();
  atomic_store(&seen[0], 0);
  atomic_store(&seen[1], 0);
  at_pool_run(pool, 2, body, NULL);
  return (int)atomic_load(&seen[1]);
}

static int is_ever_shared(at_pool* pool, size_t work) {
  int shared = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    while (!atomic_load(&pool->asleep)) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    shared |= is_shared(pool, work);
  }
  return shared;
}

int main(void) {
  at_pool* pool;
  if (at_pool_new(2, &pool) != ATALLA_OK) return 1;
  at_pool_expect(pool, 1);
  const int alone = is_ever_shared(pool, 0), little = is_ever_shared(pool, 1);
  const time_t end = time(NULL) + PATIENT_S;
  int much = 0;
  while (!much && time(NULL) < end) much = is_shared(pool, SIZE_MAX);
  printf("%d %d %d\n", alone, little, much);
  at_pool_free(pool);
  return 0;
}
