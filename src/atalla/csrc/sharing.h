// Sharing: which instructions of a context its threads share, as its first runs find out.
//
// What it costs to hand work to another processor is a microsecond where both have a cache in common, and many where
// they have not. So the first runs try one threshold after the other, and that of the fastest run stays. Bits do not
// depend on it.
#pragma once

#include "internal.h"

#ifdef ATALLA_WORTH_SHARING  // tests share everything, or nothing
static const size_t THRESHOLDS[] = {ATALLA_WORTH_SHARING};
#else
static const size_t THRESHOLDS[] = {1 << 16, 1 << 18, 1 << 21};  // of work, see "work.c": what is below stays alone
#endif

enum {
  CHOICES = sizeof THRESHOLDS / sizeof *THRESHOLDS,
  TRIALS = 8,            // of each threshold
  WORTH_TRYING = 1 << 4  // one part in so many of the work has to depend on the choice
};

typedef struct {
  at_call* calls;  // one an instruction
  size_t count;
  at_pool *pool, *alone;  // of all threads, and of the caller's
  unsigned tried;         // runs, at most TRIALS of each threshold
  uint64_t least[CHOICES];
} sharing;

static inline void share_from(const sharing* s, size_t threshold) {
  for (size_t i = 0; i < s->count; ++i) s->calls[i].pool = s->calls[i].work < threshold ? s->alone : s->pool;
}

// Whether the next run is a trial.
static inline bool is_trying(const sharing* s) { return s->tried < CHOICES * TRIALS; }

static inline void begin_trial(const sharing* s) { share_from(s, THRESHOLDS[s->tried % CHOICES]); }

static inline void end_trial(sharing* s, uint64_t nanoseconds) {
  uint64_t* least = &s->least[s->tried % CHOICES];
  if (s->tried < CHOICES || nanoseconds < *least) *least = nanoseconds;
  if (++s->tried < CHOICES * TRIALS) return;
  size_t best = 0;
  for (size_t i = 1; i < CHOICES; ++i) {
    if (s->least[i] < s->least[best]) best = i;
  }
  share_from(s, THRESHOLDS[best]);
}

// Begins with the middle threshold, which stays where little work depends on the choice.
static inline void begin_sharing(sharing* s) {
  double all = 0, between = 0;
  for (size_t i = 0; i < s->count; ++i) {
    const size_t work = s->calls[i].work;
    all += (double)work;
    if (work >= THRESHOLDS[0] && work < THRESHOLDS[CHOICES - 1]) between += (double)work;
  }
  share_from(s, THRESHOLDS[CHOICES / 2]);
  if (at_pool_threads(s->pool) == 1 || between * WORTH_TRYING < all) s->tried = CHOICES * TRIALS;
}
