// The strict loader: proves that bytes are a sound program. "blob/verify.py" looks at the same, in the same order.
//
// Nothing is read beyond what an earlier check allows; sums and products that may overflow are taken in 128 bits.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "crc.h"
#include "load.h"

static int open(const void* bytes, size_t size, bool is_trusted, atalla_blob** result, atalla_error* error) {
  if (!bytes || !result) return ATALLA_BAD_ARGUMENT;
  loader l = {.bytes = bytes, .size = size, .is_trusted = is_trusted, .blob = calloc(1, sizeof *l.blob)};
  int fault = l.blob ? 0 : ATALLA_OUT_OF_MEMORY;
  if (l.blob) {
    l.blob->bytes = bytes;
    l.blob->size = size;
  }
  int (*const steps[])(loader*) = {at_load_header, at_load_sections,     at_load_strings, at_load_tensors,
                                   at_load_lists,  at_load_instructions, at_load_symbols, at_load_calls};
  for (size_t i = 0; i < sizeof steps / sizeof *steps && !fault; ++i) fault = steps[i](&l);
  if (fault) {
    atalla_close(l.blob);
    return at_fail(error, fault, at_verdict(fault));
  }
  *result = l.blob;
  return ATALLA_OK;
}

int atalla_open(const void* bytes, size_t size, atalla_blob** blob, atalla_error* error) {
  return open(bytes, size, false, blob, error);
}

int atalla_open_trusted(const void* bytes, size_t size, atalla_blob** blob, atalla_error* error) {
  return open(bytes, size, true, blob, error);
}

void atalla_close(atalla_blob* blob) {
  if (!blob) return;
  free(blob->tensors);
  free(blob->insns);
  free(blob->own_words);
  free(blob->own_io);
  free(blob);
}

int atalla_describe(const atalla_blob* blob, atalla_info* info) {
  if (!blob || !info || info->struct_size < sizeof *info) return ATALLA_BAD_ARGUMENT;
  info->inputs = blob->input_count;
  info->outputs = blob->output_count;
  info->instructions = blob->insn_count;
  info->tensors = blob->tensor_count;
  info->calls = blob->call_count;
  info->arena_bytes = blob->arena_bytes;
  info->constant_bytes = blob->constant_bytes;
  info->state_bytes = blob->state_bytes;
  info->symbols = blob->dynamic.symbol_count;
  return ATALLA_OK;
}

int atalla_check_constants(const atalla_blob* blob) {
  if (!blob) return ATALLA_BAD_ARGUMENT;
  at_crc table;
  at_crc_init(&table);
  return at_crc_of(&table, 0, blob->constants, (size_t)blob->constant_bytes) == blob->constant_crc ? ATALLA_OK
                                                                                                   : AT_BAD_CHECKSUM;
}

at_outputs at_outputs_of(const atalla_blob* blob, const at_insn* insn) {
  if (insn->op != AT_OP_CALL_HOST) return (at_outputs){0, 0};
  const uint8_t* row = blob->calls + AT_CALL_BYTES * at_u64(blob->words + 8 * (size_t)insn->first_word);
  return (at_outputs){at_u32(row + AT_CALL_AT_FIRST_OUTPUT), at_u32(row + AT_CALL_AT_OUTPUTS)};
}

void at_reset(const atalla_blob* blob, char* state) {
  memset(state, 0, (size_t)blob->state_bytes);
  for (uint32_t i = 0; i < blob->initial_count; ++i) {
    const uint8_t* row = blob->initial + AT_INITIAL_BYTES * (size_t)i;
    memcpy(state + at_u64(row + AT_INITIAL_AT_TO), blob->constants + at_u64(row + AT_INITIAL_AT_START),
           (size_t)at_u64(row + AT_INITIAL_AT_BYTES));
  }
}
