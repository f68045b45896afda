// A small pool of threads: items are handed out one by one; the caller's thread works, too.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "internal.h"

struct at_pool {
  unsigned threads;
  pthread_t* handles;
  pthread_mutex_t lock;
  pthread_cond_t begin, done;
  uint64_t round;    // of work; guarded by the lock, as are the two below
  unsigned working;  // threads that have not finished the round
  bool closing;
  at_body body;
  void* argument;
  size_t items;
  atomic_size_t next;
};

typedef struct {
  at_pool* pool;
  unsigned number;
} worker;

static void work(at_pool* pool, unsigned number) {
  for (;;) {
    const size_t item = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
    if (item >= pool->items) return;
    pool->body(pool->argument, item, number);
  }
}

static void* serve(void* argument) {
  const worker me = *(worker*)argument;
  free(argument);
  at_pool* pool = me.pool;
  uint64_t seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (pool->round == seen && !pool->closing) pthread_cond_wait(&pool->begin, &pool->lock);
    if (pool->closing) break;
    seen = pool->round;
    pthread_mutex_unlock(&pool->lock);
    work(pool, me.number);
    pthread_mutex_lock(&pool->lock);
    if (--pool->working == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

int at_pool_new(unsigned threads, at_pool** result) {
  at_pool* pool = calloc(1, sizeof *pool);
  if (!pool) return ATALLA_OUT_OF_MEMORY;
  pool->threads = 1;
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
  pool->closing = true;
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
  pthread_mutex_lock(&pool->lock);
  pool->body = body;
  pool->argument = argument;
  pool->items = items;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  pool->working = pool->threads - 1;
  ++pool->round;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
  work(pool, 0);
  pthread_mutex_lock(&pool->lock);
  while (pool->working) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}
