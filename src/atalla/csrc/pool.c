// A small pool of threads: items are handed out one by one; the caller's thread works, too.
//
// Neighbouring items are one thread's: what it wrote in the round before is in its cache, and mostly the same part of
// the next. Who is done with its own takes those of the others. An item is taken by counting down what is `left` of
// some thread's, which holds the number of the round as well: who succeeds has an item of the round that is under way,
// and it stays so until that item is finished. The caller waits for items, not for threads: one that comes late,
// because the system gave its processor to someone else, finds nothing left.
//
// Whoever waits looks for a while before it sleeps, since the next instruction is microseconds away. A thread says that
// it sleeps (`asleep`, `waiting`) before it looks a last time, and the other side looks for sleepers after it wrote
// what they wait for; all of these are sequentially consistent, so that one of the two sees the other. Many small
// rounds are worth a thread that no one of them is worth: it may be woken before them, and looks for a while again. If
// it was about to fall asleep just then, the caller works on them alone.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
  PATIENCE = 2000,         // looks, of some 40 cycles each
  WORTH_WAKING = 1 << 22,  // of work: some ten microseconds on a wide vector unit, as long as a thread needs to begin
};

typedef struct {
  _Alignas(AT_LINE) atomic_uint_fast64_t left;  // items that nobody took; above them, the number of the round
} share;

struct at_pool {
  unsigned threads;
  pthread_t* handles;
  pthread_mutex_t lock;
  pthread_cond_t begin, done;
  at_body body;
  void* argument;
  uint64_t items;
  size_t work;          // of the round, about as many multiplications
  unsigned called;      // how often sleepers were woken before a round
  atomic_uint asleep;   // threads that wait for `begin`
  atomic_bool waiting;  // the caller waits for `done`
  atomic_bool closing;
  share* shares;  // one a thread
  _Alignas(AT_LINE) atomic_uint_fast64_t round;
  _Alignas(AT_LINE) atomic_uint_fast64_t finished;
};

static const uint64_t MOST_ITEMS = UINT32_MAX;

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

// The first item of a thread's; behind all of them, that of the next.
static size_t first_of(const at_pool* pool, uint64_t items, unsigned thread) {
  return (size_t)(items * thread / pool->threads);
}

static void work_on(at_pool* pool, unsigned owner, unsigned number) {
  atomic_uint_fast64_t* left = &pool->shares[owner].left;
  uint_fast64_t seen = atomic_load(left);
  while (seen & MOST_ITEMS) {
    if (!atomic_compare_exchange_weak(left, &seen, seen - 1)) continue;
    const uint64_t items = pool->items;
    pool->body(pool->argument, first_of(pool, items, owner + 1) - (size_t)(seen & MOST_ITEMS), number);
    if (atomic_fetch_add(&pool->finished, 1) + 1 == items && atomic_load(&pool->waiting)) {
      pthread_mutex_lock(&pool->lock);
      pthread_cond_signal(&pool->done);
      pthread_mutex_unlock(&pool->lock);
    }
    seen = atomic_load(left);
  }
}

static void work(at_pool* pool, unsigned number) {
  for (unsigned i = 0; i < pool->threads; ++i) work_on(pool, (number + i) % pool->threads, number);
}

static bool is_idle(at_pool* pool, uint_fast64_t round) {
  return atomic_load(&pool->round) == round && !atomic_load(&pool->closing);
}

// Returns when another round is there, or the end.
static void await(at_pool* pool, uint_fast64_t round) {
  for (;;) {
    for (unsigned i = 0; i < PATIENCE; ++i, look_again()) {
      if (!is_idle(pool, round)) return;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->asleep, 1);
    const unsigned called = pool->called;
    while (is_idle(pool, round) && pool->called == called) pthread_cond_wait(&pool->begin, &pool->lock);
    atomic_fetch_sub(&pool->asleep, 1);
    pthread_mutex_unlock(&pool->lock);
  }
}

static void* serve(void* argument) {
  const worker me = *(worker*)argument;
  free(argument);
  at_pool* pool = me.pool;
  for (uint_fast64_t round = 0;; round = atomic_load(&pool->round), work(pool, me.number)) {
    await(pool, round);
    if (atomic_load(&pool->closing)) return NULL;
  }
}

int at_pool_new(unsigned threads, at_pool** result) {
  void* place = NULL;
  if (posix_memalign(&place, AT_LINE, sizeof(at_pool)) != 0) return ATALLA_OUT_OF_MEMORY;
  at_pool* pool = place;
  *pool = (at_pool){.threads = 1};
  place = NULL;
  if (posix_memalign(&place, AT_LINE, threads * sizeof(share)) != 0) {
    free(pool);
    return ATALLA_OUT_OF_MEMORY;
  }
  pool->shares = memset(place, 0, threads * sizeof(share));
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
  free(pool->shares);
  free(pool);
}

unsigned at_pool_threads(const at_pool* pool) { return pool->threads; }

void at_pool_expect(at_pool* pool, size_t work) { pool->work = work; }

void at_pool_wake(at_pool* pool, size_t work) {
  if (work < WORTH_WAKING || !atomic_load(&pool->asleep)) return;
  pthread_mutex_lock(&pool->lock);
  ++pool->called;
  pthread_cond_broadcast(&pool->begin);
  pthread_mutex_unlock(&pool->lock);
}

static bool is_finished(at_pool* pool) { return atomic_load(&pool->finished) == pool->items; }

void at_pool_run(at_pool* pool, size_t items, at_body body, void* argument) {
  const bool all_sleep = atomic_load(&pool->asleep) + 1 >= pool->threads;
  if (pool->threads == 1 || items < 2 || items > MOST_ITEMS || (all_sleep && pool->work < WORTH_WAKING)) {
    for (size_t item = 0; item < items; ++item) body(argument, item, 0);
    return;
  }
  pool->body = body;
  pool->argument = argument;
  pool->items = items;
  atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
  const uint_fast64_t round = atomic_load(&pool->round) + MOST_ITEMS + 1;
  for (unsigned i = 0; i < pool->threads; ++i) {
    atomic_store(&pool->shares[i].left, round | (first_of(pool, items, i + 1) - first_of(pool, items, i)));
  }
  atomic_store(&pool->round, round);
  if (atomic_load(&pool->asleep)) {
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
  }
  work(pool, 0);
  for (unsigned i = 0; i < PATIENCE && !is_finished(pool); ++i) look_again();
  if (is_finished(pool)) return;
  pthread_mutex_lock(&pool->lock);
  atomic_store(&pool->waiting, true);
  while (!is_finished(pool)) pthread_cond_wait(&pool->done, &pool->lock);
  atomic_store(&pool->waiting, false);
  pthread_mutex_unlock(&pool->lock);
}
