// Contexts: the memory and the threads that one run of a blob needs; and the run.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/firmware.h"
#include "pairs.h"
#include "sharing.h"
#ifdef ATALLA_DEBUG
#include "debug.h"
#endif

// Bytes of scratch that no machine has.
static const size_t MOST_SCRATCH = SIZE_MAX / 2;

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

static char* memory(size_t bytes) {
  void* found = NULL;
  if (posix_memalign(&found, 4096, bytes ? (bytes + 4095) / 4096 * 4096 : 4096) != 0) return NULL;
  return found;
}

// Where a tensor's first element is; NULL for one of the caller's.
static char* home(const atalla_context* context, const at_tensor* tensor) {
  const at_tensor* root = &context->blob->tensors[tensor->root];
  char* base = NULL;
  if (root->space == AT_ARENA) base = context->arena;
  if (root->space == AT_STATE) base = context->state;
  if (root->space == AT_CONST) base = (char*)(uintptr_t)context->blob->constants;
  return base ? base + root->place + tensor->offset * (int64_t)at_size(tensor->dtype) : NULL;
}

static at_view view_of(const atalla_context* context, uint32_t number) {
  const at_tensor* tensor = &context->blob->tensors[number];
  at_view view = {.dtype = tensor->dtype, .rank = tensor->rank, .data = home(context, tensor)};
  memcpy(view.dim, tensor->dim, sizeof view.dim);
  memcpy(view.stride, tensor->stride, sizeof view.stride);
  return view;
}

static uint32_t operand(const atalla_blob* blob, uint32_t at) { return at_u32(blob->operands + 4 * (size_t)at); }

// Makes a view of a tensor, and remembers it where the storage is the caller's.
static void make_view(atalla_context* context, uint32_t number, at_view* view) {
  const at_tensor* tensor = &context->blob->tensors[number];
  const at_tensor* root = &context->blob->tensors[tensor->root];
  *view = view_of(context, number);
  if (view->data || (root->space != AT_INPUT && root->space != AT_OUTPUT)) return;
  const int64_t offset = tensor->offset * (int64_t)at_size(tensor->dtype);
  context->loans[context->loan_count++] = (loan){view, root->place, offset, root->space == AT_INPUT};
}

// Fills in what an instruction is called with, but for scratch.
static void prepare(atalla_context* context, uint32_t number) {
  const atalla_blob* blob = context->blob;
  const at_insn* insn = &blob->insns[number];
  at_call* call = &context->calls[number];
  call->words = (const int64_t*)(const void*)(blob->words + 8 * (size_t)insn->first_word);
  call->word_count = insn->words;
  if (insn->dst != AT_NOTHING) make_view(context, insn->dst, &call->dst);
  if (insn->op == AT_OP_CALL_HOST) return;
  call->sources = insn->sources;
  for (unsigned i = 0; i < insn->sources; ++i) {
    const uint32_t source = operand(blob, insn->first_source + i);
    if (source == AT_NOTHING) continue;
    call->present |= 1u << i;
    make_view(context, source, &call->src[i]);
  }
  call->work = at_work(insn->op, call);
}

// Bytes of scratch that a thread needs for a call, whoever shares it.
static size_t scratch_of(const sharing* sharing, at_need need, at_call* call) {
  call->pool = sharing->alone;
  const size_t alone = need(call);
  call->pool = sharing->pool;
  const size_t shared = need(call);
  return alone > shared ? alone : shared;
}

// Finds instructions that run in one pass with the next, and what scratch they need. Whoever asks for times wants each
// instruction's own; `after` and debug builds look at what each wrote.
static size_t pair_up(atalla_context* context, unsigned threads) {
  size_t most = 0;
#ifndef ATALLA_DEBUG
  const bool is_alone = context->times || context->firmware || context->after;
  for (uint32_t i = 0; i < context->blob->insn_count && !is_alone; ++i) {
    if (!at_is_pair(context->blob, i, context->calls, threads)) continue;
    at_call* call = &context->calls[i];
    const at_kernels* having = at_kernels_with(context->kernels, AT_OP_DWCONV2D);
    call->behind = call + 1;
    call->kernel = having->pair;
    call->work += call->behind->work;
    const size_t bytes = scratch_of(&context->sharing, having->pair_scratch, call);
    if (bytes > most) most = bytes;
  }
#else
  (void)context, (void)threads;
#endif
  return most;
}

// Options of this version; what an older one does not have is zero.
static int read_options(const atalla_options* given, atalla_options* options) {
  memset(options, 0, sizeof *options);
  if (!given) return ATALLA_OK;
  if (given->struct_size < offsetof(atalla_options, hardware)) return ATALLA_BAD_ARGUMENT;
  memcpy(options, given, given->struct_size < sizeof *options ? given->struct_size : sizeof *options);
  return ATALLA_OK;
}

int atalla_context_new(const atalla_blob* blob, const atalla_options* given, atalla_context** result,
                       atalla_error* error) {
  atalla_options known;
  if (!blob || !result || read_options(given, &known) != ATALLA_OK) {
    return at_fail(error, ATALLA_BAD_ARGUMENT, "a null pointer, or options of another version");
  }
  const atalla_options* options = &known;
  const at_kernels* kernels = at_choose(options->isa);
  if (!kernels) return at_fail(error, ATALLA_BAD_ARGUMENT, "this processor has no such instruction set");
  if (blob->call_count && !options->host && !(options->device_flags & ATALLA_DEVICE_DRY)) {
    return at_fail(error, ATALLA_NO_HOST, "the blob calls the host, and no host was given");
  }
  atalla_context* context = calloc(1, sizeof *context);
  if (!context) return at_fail(error, ATALLA_OUT_OF_MEMORY, "out of memory");
  context->blob = blob;
  context->kernels = kernels;
  atomic_flag_clear(&context->is_busy);
  context->host = options->host;
  context->user = options->user;
  context->after = options->after;
  context->after_user = options->after_user;
  const unsigned threads = options->threads && !options->hardware ? options->threads : 1;
  context->arena = memory(blob->arena_bytes);
  context->owns_state = !options->state;
  context->state = context->owns_state ? memory(blob->state_bytes) : options->state;
  context->calls = calloc(blob->insn_count, sizeof *context->calls);
  size_t views = 1;
  for (uint32_t i = 0; i < blob->insn_count; ++i) views += 1u + blob->insns[i].sources;
  context->loans = calloc(views, sizeof *context->loans);
  if (options->profile) context->times = calloc(blob->insn_count, sizeof *context->times);
  int status = at_pool_new(threads, &context->sharing.pool);
  if (status == ATALLA_OK) status = at_pool_new(1, &context->sharing.alone);
  size_t most = AT_LINE;
  if (!context->arena || !context->state || !context->calls || !context->loans ||
      (options->profile && !context->times)) {
    status = ATALLA_OUT_OF_MEMORY;
  }
  if (status == ATALLA_OK) {
    for (uint32_t i = 0; i < blob->insn_count; ++i) prepare(context, i);
  }
  if (status == ATALLA_OK && options->hardware) {
    const at_program program = {blob, context->calls, kernels, options, context->sharing.alone};
    status = at_firmware_new(&program, &context->firmware, error);
    if (status != ATALLA_OK) {
      atalla_context_free(context);
      return status;
    }
  } else if (status == ATALLA_OK) {
    for (uint32_t i = 0; i < blob->insn_count; ++i) {
      const uint16_t op = blob->insns[i].op;
      const at_kernels* having = at_kernels_with(kernels, op);
      context->calls[i].kernel = having->run[op];
      const at_need need = having->scratch[op];
      const size_t bytes = need ? scratch_of(&context->sharing, need, &context->calls[i]) : 0;
      if (bytes > most) most = bytes;
    }
    const size_t together = pair_up(context, threads);
    if (together > most) most = together;
    if (most < MOST_SCRATCH) {
      most = (most + AT_LINE - 1) / AT_LINE * AT_LINE;
#ifdef ATALLA_DEBUG
      most += AT_LINE;
#endif
    }
  }
  if (status == ATALLA_OK) {
    context->scratch = most < MOST_SCRATCH / threads ? memory(most * threads) : NULL;
    if (!context->scratch) status = ATALLA_OUT_OF_MEMORY;
  }
#ifdef ATALLA_DEBUG
  if (status == ATALLA_OK)
    status = at_debug_new(blob, context->arena, context->scratch, most, threads, &context->debug);
#endif
  if (status != ATALLA_OK) {
    atalla_context_free(context);
    return at_fail(error, status, "out of memory");
  }
  if (context->owns_state) at_reset(blob, context->state);
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    context->calls[i].scratch = context->scratch;
    context->calls[i].scratch_bytes = most;
  }
  context->sharing.calls = context->calls;
  context->sharing.count = blob->insn_count;
  begin_sharing(&context->sharing);
  *result = context;
  return ATALLA_OK;
}

void atalla_context_free(atalla_context* context) {
  if (!context) return;
#ifdef ATALLA_DEBUG
  at_debug_free(context->debug);
#endif
  at_pool_free(context->sharing.pool);
  at_pool_free(context->sharing.alone);
  free(context->arena);
  if (context->owns_state) free(context->state);
  free(context->scratch);
  free(context->calls);
  free(context->loans);
  free(context->times);
  at_firmware_free(context->firmware);
  free(context);
}

// Fills in a view whose storage is the caller's.
static void attach(const atalla_context* context, uint32_t number, void* const* inputs, void* const* outputs,
                   at_view* view) {
  const at_tensor* tensor = &context->blob->tensors[number];
  const at_tensor* root = &context->blob->tensors[tensor->root];
  if (root->space != AT_INPUT && root->space != AT_OUTPUT) return;
  char* base = root->space == AT_INPUT ? inputs[root->place] : outputs[root->place];
  view->data = base + tensor->offset * (int64_t)at_size(tensor->dtype);
}

static int call_host(const atalla_context* context, const at_insn* insn, const at_call* call, void* const* inputs,
                     void* const* outputs) {
  const atalla_blob* blob = context->blob;
  const uint32_t number = (uint32_t)call->words[0];
  const at_outputs made = at_outputs_of(blob, insn);
  const uint32_t all = insn->sources + made.count;
  atalla_tensor* tensors = calloc(all ? all : 1, sizeof *tensors);
  at_view* views = calloc(all ? all : 1, sizeof *views);
  int status = tensors && views ? ATALLA_OK : ATALLA_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < all && status == ATALLA_OK; ++i) {
    const uint32_t tensor = operand(blob, i < insn->sources ? insn->first_source + i : made.first + i - insn->sources);
    views[i] = view_of(context, tensor);
    attach(context, tensor, inputs, outputs, &views[i]);
    tensors[i] =
        (atalla_tensor){sizeof *tensors, views[i].dtype, views[i].rank, views[i].dim, views[i].stride, views[i].data};
  }
  if (status == ATALLA_OK && context->host(context->user, number, tensors, insn->sources, made.count) != 0) {
    status = ATALLA_HOST_FAILED;
  }
  free(tensors);
  free(views);
  return status;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Whether the caller's memory is there, and no output shares it with an input or another output.
static bool is_apart(const atalla_blob* blob, void* const* inputs, void* const* outputs) {
  const uint32_t all = blob->input_count + blob->output_count;
  for (uint32_t i = 0; i < all; ++i) {
    const uint8_t* row = at_output_row(blob, i);
    if (at_u32(row + AT_OUTPUT_AT_KIND) != AT_KIND_TENSOR) continue;
    const bool is_input = i < blob->input_count;
    const char* one = is_input ? inputs[i] : outputs[i - blob->input_count];
    const uint64_t bytes = blob->tensors[at_u32(row + AT_OUTPUT_AT_TENSOR)].bytes;
    if (!one && bytes) return false;
    for (uint32_t k = 0; k < i && !is_input; ++k) {
      const uint8_t* before = at_output_row(blob, k);
      if (at_u32(before + AT_OUTPUT_AT_KIND) != AT_KIND_TENSOR) continue;
      const char* other = k < blob->input_count ? inputs[k] : outputs[k - blob->input_count];
      if (one < other + blob->tensors[at_u32(before + AT_OUTPUT_AT_TENSOR)].bytes && other < one + bytes) return false;
    }
  }
  return true;
}

// Asks for what the next instruction is called with: weights may have thrown it out of the caches since the last run.
static void fetch(const at_call* call) {
  for (size_t at = 0; at < sizeof *call; at += AT_LINE) __builtin_prefetch((const char*)call + at);
}

// Whether whoever looks at each instruction wants no more.
static bool ends_after(const atalla_context* context, uint32_t number) {
  return context->after && context->after(context->after_user, number) != 0;
}

// By the device, whose firmware has its own loop over tiles; what the host computes takes none of its time.
static int run_on_device(const atalla_context* context, uint32_t number, void* const* inputs, void* const* outputs) {
  const at_insn* insn = &context->blob->insns[number];
  const at_call* call = &context->calls[number];
  if (insn->op != AT_OP_CALL_HOST) return at_firmware_run(context->firmware, number, call);
  at_firmware_skip(context->firmware, number, true);
  return at_firmware_is_dry(context->firmware) ? ATALLA_OK : call_host(context, insn, call, inputs, outputs);
}

static int run(atalla_context* context, void* const* inputs, void* const* outputs, atalla_error* error) {
  const atalla_blob* blob = context->blob;
  const bool is_dry = context->firmware && at_firmware_is_dry(context->firmware);
  if (!is_dry && !is_apart(blob, inputs, outputs)) {
    return at_fail(error, ATALLA_BAD_ARGUMENT, "a null pointer, or an output that shares memory with another tensor");
  }
  if (context->firmware) at_firmware_begin(context->firmware);
  for (size_t i = 0; i < context->loan_count && !is_dry; ++i) {
    const loan* of = &context->loans[i];
    of->view->data = (char*)(of->is_input ? inputs : outputs)[of->place] + of->offset;
  }
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const at_insn* insn = &blob->insns[i];
    if (insn->op == AT_OP_END) break;
    at_call* call = &context->calls[i];
    if (insn->dst != AT_NOTHING && at_elements(&call->dst) == 0) {
      if (context->firmware) at_firmware_skip(context->firmware, i, false);
      if (ends_after(context, i)) break;
      continue;
    }
    fetch(call + 1);
    at_pool_expect(context->sharing.pool, call->work);
    const uint64_t began = context->times ? now() : 0;
#ifdef ATALLA_DEBUG
    at_debug_before(context->debug, i);
#endif
    const int status = context->firmware             ? run_on_device(context, i, inputs, outputs)
                       : insn->op == AT_OP_CALL_HOST ? call_host(context, insn, call, inputs, outputs)
                                                     : call->kernel(call);
    if (context->times) context->times[i] = now() - began;
#ifdef ATALLA_DEBUG
    if (status == ATALLA_OK && !at_debug_after(context->debug, i)) {
      char text[96];
      snprintf(text, sizeof text, "instruction %u (operation %u) wrote beside its tensor", i, insn->op);
      return at_fail(error, ATALLA_BROKEN, text);
    }
#endif
    if (status != ATALLA_OK) {
      char text[96];
      snprintf(text, sizeof text, "instruction %u (operation %u) gave status %d", i, insn->op, status);
      if (status == ATALLA_BAD_INDEX) snprintf(text, sizeof text, "an index is out of the table's bounds");
      if (status == ATALLA_ZERO_DIVISOR) snprintf(text, sizeof text, "a whole number is divided by zero");
      if (status == ATALLA_OTHER_EDGES) {
        snprintf(text, sizeof text, "instruction %u: the matrix unit counts other cycles than the device", i);
      }
      return at_fail(error, status, text);
    }
    if (ends_after(context, i)) break;
    if (call->behind) ++i;
  }
  return ATALLA_OK;
}

int atalla_run(atalla_context* context, void* const* inputs, void* const* outputs, atalla_error* error) {
  const bool is_dry = context && context->firmware && at_firmware_is_dry(context->firmware);
  if (!context || (!is_dry && ((!inputs && context->blob->input_count) || (!outputs && context->blob->output_count)))) {
    return at_fail(error, ATALLA_BAD_ARGUMENT, "a null pointer");
  }
  if (atomic_flag_test_and_set_explicit(&context->is_busy, memory_order_acquire)) {
    return at_fail(error, ATALLA_BUSY, "the context is running already: one call at a time");
  }
  const bool is_trial = is_trying(&context->sharing);
  if (is_trial) begin_trial(&context->sharing);
  const uint64_t began = is_trial ? now() : 0;
  const int status = run(context, inputs, outputs, error);
  if (is_trial && status == ATALLA_OK) end_trial(&context->sharing, now() - began);
  atomic_flag_clear_explicit(&context->is_busy, memory_order_release);
  return status;
}

const void* atalla_arena(const atalla_context* context) { return context ? context->arena : NULL; }

size_t atalla_times(const atalla_context* context, uint64_t* nanoseconds, size_t count) {
  if (!context || !context->times) return 0;
  const size_t all = context->blob->insn_count;
  if (nanoseconds) memcpy(nanoseconds, context->times, (count < all ? count : all) * sizeof *nanoseconds);
  return all;
}

size_t atalla_device_counters(const atalla_context* context, atalla_counters* rows, size_t count) {
  return context && context->firmware ? at_firmware_counters(context->firmware, rows, count) : 0;
}

size_t atalla_device_tiles(const atalla_context* context, atalla_tile_cost* rows, size_t count) {
  return context && context->firmware ? at_firmware_tiles(context->firmware, rows, count) : 0;
}

size_t atalla_device_events(const atalla_context* context, atalla_event* rows, size_t count) {
  return context && context->firmware ? at_firmware_events(context->firmware, rows, count) : 0;
}

int atalla_reset(atalla_context* context) {
  if (!context) return ATALLA_BAD_ARGUMENT;
  if (atomic_flag_test_and_set_explicit(&context->is_busy, memory_order_acquire)) return ATALLA_BUSY;
  at_reset(context->blob, context->state);
  atomic_flag_clear_explicit(&context->is_busy, memory_order_release);
  return ATALLA_OK;
}

const char* atalla_isa(const atalla_context* context) { return context ? context->kernels->name : NULL; }

uint32_t atalla_version(void) { return ATALLA_ABI_VERSION; }
