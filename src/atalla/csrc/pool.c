// A small pool of threads: items are handed out one by one; the caller's thread works, too.
//
// Whoever waits looks for a while before it sleeps, since the next instruction is microseconds away. A thread says that
// it sleeps (`asleep`, `waiting`) before it looks a last time, and the other side looks for sleepers after it wrote
// what they wait for; all of these are sequentially consistent, so that one of the two sees the other.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "internal.h"

enum { PATIENCE = 2000 };  // looks, of some 40 cycles each

struct at_pool {
  unsigned threads;
  pthread_t* handles;
  pthread_mutex_t lock;
  pthread_cond_t begin, done;
  at_body body;
  void* argument;
  size_t items;
  atomic_uint_fast64_t round;  // of work
  atomic_uint working;         // threads that have not finished the round
  atomic_uint asleep;          // threads that wait for `begin`
  atomic_bool waiting;         // the caller waits for `done`
  atomic_bool closing;
  _Alignas(AT_LINE) atomic_size_t next;
};

typedef struct {
  at_pool* pool;
  unsigned number;
} worker;

static void look_again(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

static void work(at_pool* pool, unsigned number) {
  for (;;) {
    const size_t item = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
    if (item >= pool->items) return;
    pool->body(pool->argument, item, number);
  }
}

static bool is_idle(at_pool* pool, uint_fast64_t seen) {
  return atomic_load(&pool->round) == seen && !atomic_load(&pool->closing);
}

static void* serve(void* argument) {
  const worker me = *(worker*)argument;
  free(argument);
  at_pool* pool = me.pool;
  for (uint_fast64_t seen = 0;; ++seen) {
    for (unsigned i = 0; i < PATIENCE && is_idle(pool, seen); ++i) look_again();
    if (is_idle(pool, seen)) {
      pthread_mutex_lock(&pool->lock);
      atomic_fetch_add(&pool->asleep, 1);
      while (is_idle(pool, seen)) pthread_cond_wait(&pool->begin, &pool->lock);
      atomic_fetch_sub(&pool->asleep, 1);
      pthread_mutex_unlock(&pool->lock);
    }
    if (atomic_load(&pool->closing)) return NULL;
    work(pool, me.number);
    if (atomic_fetch_sub(&pool->working, 1) == 1 && atomic_load(&pool->waiting)) {
      pthread_mutex_lock(&pool->lock);
      pthread_cond_signal(&pool->done);
      pthread_mutex_unlock(&pool->lock);
    }
  }
}

int at_pool_new(unsigned threads, at_pool** result) {
  void* place = NULL;
  if (posix_memalign(&place, AT_LINE, sizeof(at_pool)) != 0) return ATALLA_OUT_OF_MEMORY;
  at_pool* pool = place;
  *pool = (at_pool){.threads = 1};
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->begin, NULL);
  pthread_cond_init(&pool->done, NULL);
  pool->handles = threads > 1 ? calloc(threads - 1, sizeof *pool->handles) : NULL;
  for (unsigned i = 1; i < threads; ++i) {
    worker* me = malloc(sizeof *me);
    if (me) *me = (worker){pool, i};
    if (!pool->handles || !me || pthread_create(&pool->handles[i - 1], NULL, serve, me) != 0) {
      free(me);
      at_pool_free(pool);
      return ATALLA_OUT_OF_MEMORY;
    }
    pool->threads = i + 1;
  }
  *result = pool;
  return ATALLA_OK;
}

void at_pool_free(at_pool* pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->closing, true);
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned i = 1; i < pool->threads; ++i) pthread_join(pool->handles[i - 1], NULL);
  pthread_cond_destroy(&pool->done);
  pthread_cond_destroy(&pool->begin);
  pthread_mutex_destroy(&pool->lock);
  free(pool->handles);
  free(pool);
}

unsigned at_pool_threads(const at_pool* pool) { return pool->threads; }

void at_pool_run(at_pool* pool, size_t items, at_body body, void* argument) {
  if (pool->threads == 1 || items < 2) {
    for (size_t item = 0; item < items; ++item) body(argument, item, 0);
    return;
  }
  pool->body = body;
  pool->argument = argument;
  pool->items = items;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  atomic_store(&pool->working, pool->threads - 1);
  atomic_fetch_add(&pool->round, 1);
  if (atomic_load(&pool->asleep)) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
  }
  work(pool, 0);
  for (unsigned i = 0; i < PATIENCE && atomic_load(&pool->working); ++i) look_again();
  if (!atomic_load(&pool->working)) return;
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->waiting, true);
  while (atomic_load(&pool->working)) pthread_cond_wait(&pool->done, &pool->lock);
  atomic_store(&pool->waiting, false);
  pthread_mutex_unlock(&pool->lock);
}
