// The run of a context: instruction by instruction, by a kernel, the device or the host.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "context.h"

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
    const uint32_t tensor =
        at_operand(blob, i < insn->sources ? insn->first_source + i : made.first + i - insn->sources);
    views[i] = at_context_view(context, tensor);
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

uint64_t at_now(void) {
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
    const uint64_t began = context->times ? at_now() : 0;
#ifdef ATALLA_DEBUG
    at_debug_before(context->debug, i);
#endif
    const int status = context->firmware             ? run_on_device(context, i, inputs, outputs)
                       : insn->op == AT_OP_CALL_HOST ? call_host(context, insn, call, inputs, outputs)
                                                     : call->kernel(call);
    if (context->times) context->times[i] = at_now() - began;
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
  const bool is_settled = context->sharing.is_settled;
  if (!is_settled) begin_run(&context->sharing);
  const uint64_t began = is_settled ? 0 : at_now();
  at_pool_wake(context->sharing.pool, context->sharing.shared);
  const int status = run(context, inputs, outputs, error);
  if (!is_settled && status == ATALLA_OK) end_run(&context->sharing, at_now() - began);
  atomic_flag_clear_explicit(&context->is_busy, memory_order_release);
  return status;
}

int atalla_reset(atalla_context* context) {
  if (!context) return ATALLA_BAD_ARGUMENT;
  if (atomic_flag_test_and_set_explicit(&context->is_busy, memory_order_acquire)) return ATALLA_BUSY;
  at_reset(context->blob, context->state);
  atomic_flag_clear_explicit(&context->is_busy, memory_order_release);
  return ATALLA_OK;
}
