// A context: the memory and the threads that one run of a blob needs, and what its instructions are called with.
#pragma once

#include <stdatomic.h>

#include "device/firmware.h"
#include "sharing.h"
#ifdef ATALLA_DEBUG
#include "debug.h"
#endif

// A view of the caller's memory, which is elsewhere in each run: of input or output `place`, `offset` bytes from there.
typedef struct {
  at_view* view;
  int64_t place, offset;
  bool is_input;
} loan;

struct atalla_context {
  const atalla_blob* blob;
  const at_kernels* kernels;
  sharing sharing;
  atalla_host host;
  void* user;
  atalla_after after;
  void* after_user;
  char *arena, *state, *scratch;
  bool owns_state;
  atomic_flag is_busy;  // from the beginning of a run or a reset to its end
  at_call* calls;       // one an instruction
  loan* loans;          // what is filled in for each run
  size_t loan_count;
  uint64_t* times;
  at_firmware* firmware;  // of a simulated device; NULL: by the kernels
#ifdef ATALLA_DEBUG
  at_debug* debug;
#endif
};

// A view of a tensor; `data` is NULL where the storage is the caller's.
at_view at_context_view(const atalla_context* context, uint32_t number);
