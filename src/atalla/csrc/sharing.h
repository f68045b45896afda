// Sharing: which instructions of a context its threads share, as its runs find out.
//
// What it costs to hand work to another processor is a microsecond where both have a cache in common, and many where
// they have not; and virtual machines are moved from processor to processor. So runs try one threshold after the
// other, one that shares nothing among them, and that of the fastest run stays until it is no longer as fast, or for a
// while where sharing more may have become faster, which is longer each time that a trial ends the same. Bits do not
// depend on it.
#pragma once

#include "internal.h"

#ifdef ATALLA_WORTH_SHARING  // tests share everything, or nothing
static const size_t THRESHOLDS[] = {ATALLA_WORTH_SHARING};
#else
static const size_t THRESHOLDS[] = {1 << 16, 1 << 18, 1 << 21, SIZE_MAX};  // of work, see "work.c"
#endif

enum {
  CHOICES = sizeof THRESHOLDS / sizeof *THRESHOLDS,
  USUAL_CHOICE = CHOICES / 3,  // the second threshold, or the only one
  TURN = 2,                    // runs in a row; the last one counts: those before fill the caches
  TRIAL = 4 * TURN * CHOICES,  // runs
  WINDOW = 32,                 // runs, whose fastest shows how fast a choice still is
  FIRST_REST = 64,             // runs from one trial to the next, at first and at most
  LAST_REST = 1024,
  SELDOM_SHARED = 1 << 24,  // of work: what is above is worth sharing everywhere
  WORTH_TRYING = 1 << 4     // one part in so many of the work has to depend on the choice
};

typedef struct {
  at_call* calls;  // one an instruction
  size_t count;
  at_pool *pool, *alone;    // of all threads, and of the caller's
  bool is_settled;          // there is nothing to try
  unsigned runs, rest;      // since a trial began, and until the next does
  size_t choice, shared;    // shared: work of what threads share
  uint64_t least[CHOICES];  // nanoseconds of the trial's fastest runs
  uint64_t recent;          // of the window's
} sharing;

static inline void share_from(sharing* s, size_t threshold) {
  s->shared = 0;
  for (size_t i = 0; i < s->count; ++i) {
    at_call* call = &s->calls[i];
    const bool is_shared = call->work >= threshold;
    call->pool = is_shared ? s->pool : s->alone;
    if (is_shared) s->shared += call->work;
  }
}

static inline size_t choice_of_run(unsigned run) { return run / TURN % CHOICES; }

static inline void begin_run(sharing* s) {
  if (s->runs < TRIAL && s->runs % TURN == 0) share_from(s, THRESHOLDS[choice_of_run(s->runs)]);
}

static inline void end_trial(sharing* s) {
  const size_t before = s->choice;
  s->choice = 0;
  for (size_t i = 1; i < CHOICES; ++i) {
    if (s->least[i] < s->least[s->choice]) s->choice = i;
  }
  const bool is_same = s->rest && s->choice == before;
  s->rest = !is_same ? FIRST_REST : s->rest < LAST_REST ? 2 * s->rest : LAST_REST;
  s->recent = UINT64_MAX;
  share_from(s, THRESHOLDS[s->choice]);
}

// Takes note of how long a run took.
static inline void end_run(sharing* s, uint64_t nanoseconds) {
  const unsigned run = s->runs++;
  if (run < TRIAL) {
    uint64_t* least = &s->least[choice_of_run(run)];
    const bool is_first = run < TURN * CHOICES;
    if (run % TURN == TURN - 1 && (is_first || nanoseconds < *least)) *least = nanoseconds;
    if (s->runs == TRIAL) end_trial(s);
    return;
  }
  if (nanoseconds < s->recent) s->recent = nanoseconds;
  if ((s->runs - TRIAL) % WINDOW) return;
  const bool is_slower = s->recent > s->least[s->choice] + s->least[s->choice] / 4;
  if (is_slower || (s->choice > 0 && s->runs >= s->rest)) s->runs = 0;
  s->recent = UINT64_MAX;
}

// Begins with the usual choice, which stays where little work depends on it.
static inline void begin_sharing(sharing* s) {
  double all = 0, between = 0;
  for (size_t i = 0; i < s->count; ++i) {
    const size_t work = s->calls[i].work;
    all += (double)work;
    if (work >= THRESHOLDS[0] && work < SELDOM_SHARED) between += (double)work;
  }
  s->is_settled = CHOICES == 1 || at_pool_threads(s->pool) == 1 || between * WORTH_TRYING < all;
  share_from(s, THRESHOLDS[USUAL_CHOICE]);
}
