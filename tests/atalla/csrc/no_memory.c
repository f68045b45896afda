// Lets the n-th allocation of a blob's life fail, for every n: each time the status must say so, and nothing may leak.
//
// no_memory BLOB: linked with --wrap for malloc, calloc, realloc, posix_memalign and pthread_create.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atalla.h"
#include "internal.h"

static atomic_long left = -1;  // allocations that still succeed; below 0: all

static int fails(void) { return atomic_load(&left) >= 0 && atomic_fetch_sub(&left, 1) == 0; }

void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* old, size_t size);
int __real_posix_memalign(void** result, size_t align, size_t size);
int __real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument);

void* __wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void* __wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void* __wrap_realloc(void* old, size_t size) { return fails() ? NULL : __real_realloc(old, size); }
int __wrap_posix_memalign(void** result, size_t align, size_t size) {
  return fails() ? ENOMEM : __real_posix_memalign(result, align, size);
}
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  return fails() ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}

static int host(void* user, uint32_t call, const atalla_tensor* tensors, size_t operands, size_t outputs) {
  (void)user, (void)call, (void)tensors, (void)operands, (void)outputs;
  return 0;
}

// From bytes to a run; the memory of the caller is there.
static int live(const void* bytes, size_t size, void** inputs, void** outputs, atalla_error* error) {
  const atalla_options options = {.struct_size = sizeof options, .threads = 3, .host = host, .profile = 1};
  atalla_blob* blob = NULL;
  atalla_context* context = NULL;
  int status = atalla_open(bytes, size, &blob, error);
  if (!status) status = atalla_context_new(blob, &options, &context, error);
  if (!status) status = atalla_run(context, inputs, outputs, error);
  atalla_context_free(context);
  atalla_close(blob);
  return status;
}

// Five buffers whose greedy plans are above the bound, so that the search has its turn.
static int plan(atalla_error* error) {
  static const uint64_t sizes[] = {64, 128, 192, 64, 192, 128, 64, 128};
  static const uint32_t first[] = {0, 0, 1, 2, 3, 1, 4, 2}, last[] = {2, 1, 3, 5, 5, 2, 5, 4};
  uint64_t offset[8];
  atalla_planning planning = {.struct_size = sizeof planning,
                              .count = 8,
                              .size = sizes,
                              .first = first,
                              .last = last,
                              .align = 64,
                              .nodes = 1000,
                              .offset = offset};
  return atalla_plan(&planning, error);
}

static void** places(const atalla_blob* blob, uint32_t first, uint32_t count) {
  void** made = calloc(count + 1, sizeof *made);
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* row = blob->io + 16 * (size_t)(first + i);
    if (at_u32(row) == 0) made[i] = calloc(blob->tensors[at_u32(row + 4)].bytes + 1, 1);
  }
  return made;
}

static void release(void** places, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) free(places[i]);
  free(places);
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  FILE* file = fopen(arguments[1], "rb");
  if (!file) return 2;
  fseek(file, 0, SEEK_END);
  const size_t size = (size_t)ftell(file);
  rewind(file);
  void* bytes = aligned_alloc(64, (size + 63) / 64 * 64);
  if (!bytes || fread(bytes, 1, size, file) != size) return 2;
  fclose(file);
  atalla_error error = {.struct_size = sizeof error};
  atalla_blob* blob = NULL;
  if (atalla_open(bytes, size, &blob, &error)) return 2;
  const uint32_t ins = blob->input_count, outs = blob->output_count;
  void **inputs = places(blob, 0, ins), **outputs = places(blob, ins, outs);
  atalla_close(blob);
  long tried[2] = {0, 0};
  for (int what = 0; what < 2; ++what) {
    for (long n = 0;; ++n) {
      error.status = 0;
      atomic_store(&left, n);
      const int status = what ? plan(&error) : live(bytes, size, inputs, outputs, &error);
      const int failed = atomic_exchange(&left, -1) < 0;
      if (status != (failed ? ATALLA_OUT_OF_MEMORY : ATALLA_OK) || (failed && error.status != status)) {
        fprintf(stderr, "allocation %ld: status %d\n", n, status);
        return 1;
      }
      tried[what] = n;
      if (!failed) break;
    }
  }
  printf("%ld %ld\n", tried[0], tried[1]);
  release(inputs, ins);
  release(outputs, outs);
  free(bytes);
  return 0;
}
