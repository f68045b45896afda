// Contexts, made and freed; and what can be asked of them.
#include "context.h"

#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "pairs.h"

static const size_t LARGE_PAGE = 2 << 20;
// Bytes of scratch that no machine has.
static const size_t MOST_SCRATCH = SIZE_MAX / 2;

// Blocks of 2 MB and more lie in large pages where the kernel has them: see run/pages.py.
static char* memory(size_t bytes) {
  void* found = NULL;
  const size_t page = bytes >= LARGE_PAGE ? LARGE_PAGE : 4096;
  if (posix_memalign(&found, page, bytes ? (bytes + page - 1) / page * page : page) != 0) return NULL;
#if defined(__linux__)
  if (page == LARGE_PAGE) madvise(found, (bytes + page - 1) / page * page, MADV_HUGEPAGE);  // small ones do as well
#endif
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

at_view at_context_view(const atalla_context* context, uint32_t number) {
  const at_tensor* tensor = &context->blob->tensors[number];
  at_view view = {.dtype = tensor->dtype, .rank = tensor->rank, .data = home(context, tensor)};
  memcpy(view.dim, tensor->dim, sizeof view.dim);
  memcpy(view.stride, tensor->stride, sizeof view.stride);
  return view;
}

// Makes a view of a tensor, and remembers it where the storage is the caller's.
static void make_view(atalla_context* context, uint32_t number, at_view* view) {
  const at_tensor* tensor = &context->blob->tensors[number];
  const at_tensor* root = &context->blob->tensors[tensor->root];
  *view = at_context_view(context, number);
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
    const uint32_t source = at_operand(blob, insn->first_source + i);
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
    call[1].work = 0;  // it is not counted twice
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

// Finds each instruction's kernel. Returns the bytes of scratch that a thread needs, a multiple of lines, or more than
// any machine has.
static size_t choose_kernels(atalla_context* context, unsigned threads) {
  size_t most = AT_LINE;
  for (uint32_t i = 0; i < context->blob->insn_count; ++i) {
    const uint16_t op = context->blob->insns[i].op;
    const at_kernels* having = at_kernels_with(context->kernels, op);
    context->calls[i].kernel = having->run[op];
    const at_need need = having->scratch[op];
    const size_t bytes = need ? scratch_of(&context->sharing, need, &context->calls[i]) : 0;
    if (bytes > most) most = bytes;
  }
  const size_t together = pair_up(context, threads);
  if (together > most) most = together;
  if (most >= MOST_SCRATCH) return most;
  most = (most + AT_LINE - 1) / AT_LINE * AT_LINE;
#ifdef ATALLA_DEBUG
  most += AT_LINE;
#endif
  return most;
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
    most = choose_kernels(context, threads);
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

const char* atalla_isa(const atalla_context* context) { return context ? context->kernels->name : NULL; }

uint32_t atalla_version(void) { return ATALLA_ABI_VERSION; }
