// Specialise: the same program for inputs of other sizes, verified again by the checks of a blob that is loaded.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "load.h"
#include "plan.h"
#include "symbols.h"

// Plans the arena again: sizes have changed. Lives are those of the blob `of` which this is a copy, whose words are
// proved: those of the copy may be anything until it is checked.
static int place(atalla_blob* blob, const atalla_blob* of) {
  const uint32_t count = blob->tensor_count;
  uint32_t* first = malloc(2 * sizeof *first * (count + 1u));
  uint64_t* bytes = malloc(2 * sizeof *bytes * (count + 1u));
  if (!first || !bytes) {
    free(first);
    free(bytes);
    return ATALLA_OUT_OF_MEMORY;
  }
  uint32_t arena = 0, *last = first + count;
  uint64_t *offset = bytes + count, total = 0;
  int fault = 0;
  at_lives(of, first, last);
  for (uint32_t i = 0; i < count && !fault; ++i) {  // those of the arena move to the front
    const at_tensor* t = &blob->tensors[i];
    if (t->root != i || t->space != AT_ARENA) continue;
    const bool is_used = first[i] != AT_NOTHING;
    first[arena] = is_used ? first[i] : 0;
    last[arena] = is_used ? last[i] : 0;
    bytes[arena++] = t->bytes;
    total += (t->bytes + AT_LINE - 1) / AT_LINE * AT_LINE;
    if (total > AT_MOST_BYTES) fault = AT_BAD_BOUNDS;
  }
  if (!fault) fault = at_plan_greedy(arena, bytes, first, last, AT_LINE, offset, &blob->arena_bytes);
  arena = 0;
  for (uint32_t i = 0; i < count && !fault; ++i) {
    at_tensor* t = &blob->tensors[i];
    if (t->root == i && t->space == AT_ARENA) t->place = (int64_t)offset[arena++];
  }
  free(first);
  free(bytes);
  return fault;
}

// Writes numbers into the tables of a copy; 0 or a verdict.
static int rewrite(atalla_blob* blob, const atalla_blob* of, const int64_t* values) {
  for (uint32_t i = 0; i < blob->dynamic.patch_count; ++i) {
    const at_patch p = at_patch_at(blob, i);
    uint64_t value = (uint64_t)values[p.node];
    if (p.kind == AT_PATCH_TENSOR) {
      *at_field_of(&blob->tensors[p.row], p.field) = values[p.node];
      continue;
    }
    uint8_t* to = p.kind == AT_PATCH_WORD
                      ? blob->own_words + 8 * (size_t)p.row
                      : blob->own_io + AT_OUTPUT_BYTES * ((size_t)blob->input_count + p.row) + AT_OUTPUT_AT_VALUE;
    for (int k = 0; k < 8; ++k, value >>= 8) to[k] = (uint8_t)value;
  }
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    if (!at_dims_fit(&blob->tensors[i])) return AT_BAD_TENSOR;
  }
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    at_tensor* t = &blob->tensors[i];
    if (t->root != i || t->space == AT_CONST || t->space == AT_STATE) continue;
    __int128 low, high, bytes = 0;
    if (at_reach(t, &low, &high)) bytes = (high + 1) * (__int128)at_size(t->dtype);
    if (bytes > (__int128)AT_MOST_BYTES) return AT_BAD_BOUNDS;
    t->bytes = (uint64_t)bytes;
  }
  return place(blob, of);
}

static uint8_t* copied(const void* from, size_t size) {
  uint8_t* made = malloc(size ? size : 1);
  if (made && size) memcpy(made, from, size);
  return made;
}

// The same blob with tables of its own.
static atalla_blob* copy_of(const atalla_blob* blob) {
  atalla_blob* made = malloc(sizeof *made);
  if (!made) return NULL;
  *made = *blob;
  made->tensors = (at_tensor*)(void*)copied(blob->tensors, blob->tensor_count * sizeof *blob->tensors);
  made->insns = (at_insn*)(void*)copied(blob->insns, blob->insn_count * sizeof *blob->insns);
  made->words = made->own_words = copied(blob->words, 8 * (size_t)blob->word_count);
  made->io = made->own_io = copied(blob->io, AT_OUTPUT_BYTES * ((size_t)blob->input_count + blob->output_count));
  if (made->tensors && made->insns && made->own_words && made->own_io) return made;
  atalla_close(made);
  return NULL;
}

// The name of something, cut to fit into a message; what might steer a terminal becomes a question mark.
static const char* name_of(const atalla_blob* blob, uint32_t number, char text[64]) {
  const at_text name = at_string(blob, number);
  const size_t kept = name.size < 63 ? name.size : 63;
  for (size_t i = 0; i < kept; ++i) text[i] = name.at[i] >= ' ' && name.at[i] <= '~' ? name.at[i] : '?';
  text[kept] = 0;
  return text;
}

static int refuse_symbol(const atalla_blob* blob, uint32_t number, int64_t extent, atalla_error* error) {
  const at_symbol s = at_symbol_at(blob, number);
  char text[256], name[64], range[64];
  const long long least = s.least * s.factor + s.summand, most = s.most * s.factor + s.summand;
  snprintf(range, sizeof range, "%lld to %lld", least, most);
  if (s.most == (int64_t)AT_MOST_BYTES) snprintf(range, sizeof range, "%lld up", least);
  snprintf(text, sizeof text, "input %u (%s) has %lld in dim %u, which goes from %s", s.input,
           name_of(blob, at_input_of(blob, s.input)->name, name), (long long)extent, s.dim, range);
  if (s.factor > 1) snprintf(text + strlen(text), sizeof text - strlen(text), " in steps of %lld", (long long)s.factor);
  return at_fail(error, ATALLA_BAD_SHAPE, text);
}

// Whether the inputs' shapes are those of the tables; else a message.
static int compare(const atalla_blob* blob, const atalla_tensor* inputs, atalla_error* error) {
  char text[256], name[64];
  for (uint32_t i = 0; i < blob->input_count; ++i) {
    const at_tensor* t = at_input_of(blob, i);
    for (uint32_t k = 0; k < t->rank; ++k) {
      if (inputs[i].shape[k] == t->dim[k]) continue;
      snprintf(text, sizeof text, "input %u (%s) has %lld in dim %u instead of %lld", i, name_of(blob, t->name, name),
               (long long)inputs[i].shape[k], k, (long long)t->dim[k]);
      return at_fail(error, ATALLA_BAD_SHAPE, text);
    }
  }
  return ATALLA_OK;
}

static int check_ranks(const atalla_blob* blob, const atalla_tensor* inputs, size_t count, atalla_error* error) {
  char text[256], name[64];
  if (count != blob->input_count) {
    snprintf(text, sizeof text, "%zu inputs instead of %u", count, blob->input_count);
    return at_fail(error, ATALLA_BAD_SHAPE, text);
  }
  for (uint32_t i = 0; i < blob->input_count; ++i) {
    const at_tensor* t = at_input_of(blob, i);
    if (inputs[i].rank == t->rank && (inputs[i].shape || !t->rank)) continue;
    snprintf(text, sizeof text, "input %u (%s) has %u dims instead of %u", i, name_of(blob, t->name, name),
             inputs[i].rank, t->rank);
    return at_fail(error, ATALLA_BAD_SHAPE, text);
  }
  return ATALLA_OK;
}

static int specialize(const atalla_blob* blob, const atalla_tensor* inputs, int64_t* symbols, int64_t* values,
                      const int64_t** shapes, atalla_blob** result, atalla_error* error) {
  uint32_t bad = 0;
  for (uint32_t i = 0; i < blob->input_count; ++i) shapes[i] = inputs[i].shape;
  if (!at_bind(blob, shapes, symbols, &bad)) {
    const at_symbol s = at_symbol_at(blob, bad);
    return refuse_symbol(blob, bad, inputs[s.input].shape[s.dim], error);
  }
  if (!at_evaluate(blob, symbols, values)) return at_fail(error, ATALLA_BAD_SHAPE, "the inputs are too large");
  if (!at_guards_hold(blob, values))
    return at_fail(error, ATALLA_BAD_SHAPE, "the program was not exported for these shapes");
  atalla_blob* made = copy_of(blob);
  if (!made) return at_fail(error, ATALLA_OUT_OF_MEMORY, "out of memory");
  int fault = rewrite(made, blob, values);
  made->dynamic = (at_symbols){0};
  const int refused = fault ? 0 : compare(made, inputs, error);
  if (!refused) {
    for (uint32_t i = 0; i < made->tensor_count && !fault; ++i) fault = at_check_tensor(made, i);
    for (uint32_t i = 0; i < made->insn_count && !fault; ++i) fault = at_check_instruction(made, &made->insns[i]);
    if (!fault) fault = at_check_flow(made);
    if (fault) at_fail(error, fault, at_verdict(fault));
  }
  if (refused || fault) {
    atalla_close(made);
    return refused ? refused : fault;
  }
  *result = made;
  return ATALLA_OK;
}

int atalla_specialize(const atalla_blob* blob, const atalla_tensor* inputs, size_t count, atalla_blob** result,
                      atalla_error* error) {
  if (!blob || !result || (!inputs && count)) return at_fail(error, ATALLA_BAD_ARGUMENT, "a null pointer");
  int status = check_ranks(blob, inputs, count, error);
  if (status) return status;
  int64_t* symbols = calloc(blob->dynamic.symbol_count + 1u, sizeof *symbols);
  int64_t* values = calloc(blob->dynamic.node_count + 1u, sizeof *values);
  const int64_t** shapes = calloc(count + 1u, sizeof *shapes);
  status = symbols && values && shapes ? specialize(blob, inputs, symbols, values, shapes, result, error)
                                       : at_fail(error, ATALLA_OUT_OF_MEMORY, "out of memory");
  free(symbols);
  free(values);
  free(shapes);
  return status;
}
