// The strict loader's second half: tensors, lists and instructions.
#include <stdlib.h>

#include "check.h"
#include "load.h"

static int read_tensor(const loader* l, const uint8_t* row, uint32_t number, at_tensor* t) {
  *t = (at_tensor){.dtype = row[AT_TENSOR_AT_DTYPE],
                   .rank = row[AT_TENSOR_AT_RANK],
                   .space = row[AT_TENSOR_AT_SPACE],
                   .layout = row[AT_TENSOR_AT_LAYOUT],
                   .root = at_u32(row + AT_TENSOR_AT_ROOT),
                   .offset = (int64_t)at_u64(row + AT_TENSOR_AT_OFFSET),
                   .bytes = at_u64(row + AT_TENSOR_AT_BYTES),
                   .place = (int64_t)at_u64(row + AT_TENSOR_AT_PLACE),
                   .name = at_u32(row + AT_TENSOR_AT_NAME)};
  for (int i = 0; i < AT_DIMS; ++i) {
    t->dim[i] = (int64_t)at_u64(row + AT_TENSOR_AT_DIMS + 8 * i);
    t->stride[i] = (int64_t)at_u64(row + AT_TENSOR_AT_STRIDES + 8 * i);
  }
  if (t->dtype < 1 || t->dtype >= AT_DTYPE_COUNT || t->rank > AT_DIMS) return AT_BAD_TENSOR;
  if (t->space < 1 || t->space >= AT_SPACE_COUNT || t->layout >= AT_LAYOUT_COUNT) return AT_BAD_TENSOR;
  if (t->root > number || t->name >= l->blob->string_count || at_u32(row + AT_TENSOR_AT_ZERO)) return AT_BAD_TENSOR;
  if (t->layout != AT_STRIDED && (t->space != AT_CONST || t->root != number)) return AT_BAD_TENSOR;
  return at_dims_fit(t) ? 0 : AT_BAD_TENSOR;
}

bool at_dims_fit(const at_tensor* t) {
  for (int i = 0; i < AT_DIMS; ++i) {
    if (t->dim[i] < 0 || (i >= t->rank && (t->dim[i] || t->stride[i]))) return false;
    if ((uint64_t)t->dim[i] > AT_MOST_BYTES) return false;
    if ((t->stride[i] < 0 ? -(t->stride[i] + 1) : t->stride[i]) > (int64_t)AT_MOST_BYTES) return false;
  }
  return true;
}

bool at_reach(const at_tensor* t, __int128* low, __int128* high) {
  *low = *high = t->offset;
  for (int i = 0; i < t->rank; ++i) {
    if (t->dim[i] == 0) return false;
    const __int128 step = (__int128)(t->dim[i] - 1) * t->stride[i];
    *(step < 0 ? low : high) += step;
  }
  return true;
}

// Whether the product of all dims that are not 0 can be counted: kernels multiply them.
static bool is_countable(const at_tensor* t) {
  uint64_t count = 1;
  for (int i = 0; i < t->rank; ++i) {
    const uint64_t dim = t->dim[i] ? (uint64_t)t->dim[i] : 1;
    if (dim > AT_MOST_BYTES / count) return false;
    count *= dim;
  }
  return true;
}

int at_check_tensor(const atalla_blob* blob, uint32_t number) {
  const at_tensor *t = &blob->tensors[number], *root = &blob->tensors[t->root];
  if (!is_countable(t)) return AT_BAD_TENSOR;
  if (root->root != t->root || root->space != t->space || (t->root != number && root->layout != AT_STRIDED)) {
    return AT_BAD_TENSOR;
  }
  __int128 low, high, reached = 0;
  const __int128 size = (__int128)at_size(t->dtype);
  if (t->layout == AT_STRIDED && at_reach(t, &low, &high)) {
    reached = (high + 1) * size;
    if (low < 0 || reached > (__int128)root->bytes) return AT_BAD_BOUNDS;
  }
  if ((__int128)t->offset * size > (__int128)root->bytes || t->offset < 0) return AT_BAD_BOUNDS;
  if (t->root != number) return t->bytes || t->place ? AT_BAD_TENSOR : 0;
  if (t->offset || t->place < 0) return AT_BAD_TENSOR;
  const uint64_t spaces[AT_SPACE_COUNT] = {
      [AT_CONST] = blob->constant_bytes, [AT_ARENA] = blob->arena_bytes, [AT_STATE] = blob->state_bytes};
  if (t->space == AT_INPUT || t->space == AT_OUTPUT) {  // the caller knows dims and strides, and passes no byte more
    return t->bytes > AT_MOST_BYTES || t->bytes != (uint64_t)reached ? AT_BAD_BOUNDS : 0;
  }
  if (t->place % AT_LINE) return AT_BAD_BOUNDS;
  if (t->bytes > spaces[t->space] || (uint64_t)t->place > spaces[t->space] - t->bytes) return AT_BAD_BOUNDS;
  if (t->layout != AT_STRIDED && !at_packed_fits(t)) return AT_BAD_BOUNDS;
  return 0;
}

int at_load_tensors(loader* l) {
  atalla_blob* blob = l->blob;
  if (l->tens.size % AT_TENSOR_BYTES || l->tens.size / AT_TENSOR_BYTES > AT_MOST_ROWS) return AT_BAD_TENSOR;
  blob->tensor_count = (uint32_t)(l->tens.size / AT_TENSOR_BYTES);
  blob->tensors = calloc(blob->tensor_count ? blob->tensor_count : 1, sizeof *blob->tensors);
  if (!blob->tensors) return ATALLA_OUT_OF_MEMORY;
  blob->constants = l->cnst.at;
  blob->constant_bytes = l->cnst.size;
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const int fault = read_tensor(l, l->tens.at + AT_TENSOR_BYTES * (size_t)i, i, &blob->tensors[i]);
    if (fault) return fault;
  }
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const int fault = at_check_tensor(blob, i);
    if (fault) return fault;
  }
  return 0;
}

// What the state holds at first lies in the constants, and goes into the state, each byte once.
static int check_initial(loader* l) {
  atalla_blob* blob = l->blob;
  if (l->stat.size % AT_INITIAL_BYTES || l->stat.size / AT_INITIAL_BYTES > AT_MOST_ROWS) return AT_BAD_LISTS;
  uint64_t end = 0;
  blob->initial = l->stat.at;
  blob->initial_count = (uint32_t)(l->stat.size / AT_INITIAL_BYTES);
  for (uint32_t i = 0; i < blob->initial_count; ++i) {
    const uint8_t* row = blob->initial + AT_INITIAL_BYTES * (size_t)i;
    const uint64_t to = at_u64(row + AT_INITIAL_AT_TO), from = at_u64(row + AT_INITIAL_AT_START),
                   bytes = at_u64(row + AT_INITIAL_AT_BYTES);
    if (to < end || bytes > blob->state_bytes || to > blob->state_bytes - bytes) return AT_BAD_LISTS;
    if (bytes > blob->constant_bytes || from > blob->constant_bytes - bytes) return AT_BAD_LISTS;
    end = to + bytes;
  }
  return 0;
}

// Inputs, outputs, operands and calls: every number is of something that is there.
int at_load_lists(loader* l) {
  atalla_blob* blob = l->blob;
  if (l->oper.size % 4 || l->attr.size % 8 || l->host.size % AT_CALL_BYTES || l->iotb.size < 8) return AT_BAD_LISTS;
  if (l->oper.size / 4 > UINT32_MAX || l->attr.size / 8 > UINT32_MAX || l->host.size / AT_CALL_BYTES > AT_MOST_ROWS)
    return AT_BAD_LISTS;
  blob->operands = l->oper.at;
  blob->operand_count = (uint32_t)(l->oper.size / 4);
  blob->words = l->attr.at;
  blob->word_count = (uint32_t)(l->attr.size / 8);
  blob->calls = l->host.at;
  blob->call_count = (uint32_t)(l->host.size / AT_CALL_BYTES);
  blob->input_count = at_u32(l->iotb.at);
  blob->output_count = at_u32(l->iotb.at + 4);
  blob->io = l->iotb.at + 8;
  if (8 + AT_OUTPUT_BYTES * ((uint64_t)blob->input_count + blob->output_count) != l->iotb.size) return AT_BAD_LISTS;
  for (uint32_t i = 0; i < blob->operand_count; ++i) {
    const uint32_t number = at_operand(blob, i);
    if (number != AT_NOTHING && number >= blob->tensor_count) return AT_BAD_LISTS;
  }
  for (uint32_t i = 0; i < blob->input_count + blob->output_count; ++i) {
    const uint8_t* row = at_output_row(blob, i);
    const uint32_t kind = at_u32(row + AT_OUTPUT_AT_KIND), number = at_u32(row + AT_OUTPUT_AT_TENSOR);
    const bool is_input = i < blob->input_count;
    if (kind > (is_input ? AT_KIND_TENSOR : AT_KIND_COUNT - 1u)) return AT_BAD_LISTS;
    if (kind) {
      if (number != AT_NOTHING) return AT_BAD_LISTS;
      continue;
    }
    if (number >= blob->tensor_count || at_u64(row + AT_OUTPUT_AT_VALUE)) return AT_BAD_LISTS;
    const at_tensor* t = &blob->tensors[number];
    if (t->root != number || t->space != (is_input ? AT_INPUT : AT_OUTPUT)) return AT_BAD_LISTS;
    if ((uint64_t)t->place != (is_input ? i : i - blob->input_count)) return AT_BAD_LISTS;
  }
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const at_tensor* t = &blob->tensors[i];
    if (t->root != i || (t->space != AT_INPUT && t->space != AT_OUTPUT)) continue;
    const uint32_t first = t->space == AT_INPUT ? 0 : blob->input_count;
    const uint32_t count = t->space == AT_INPUT ? blob->input_count : blob->output_count;
    if ((uint64_t)t->place >= count) return AT_BAD_LISTS;
    const uint8_t* row = at_output_row(blob, (size_t)first + (size_t)t->place);
    if (at_u32(row + AT_OUTPUT_AT_KIND) || at_u32(row + AT_OUTPUT_AT_TENSOR) != i) return AT_BAD_LISTS;
  }
  uint64_t outputs = 0;
  for (uint32_t i = 0; i < blob->call_count; ++i) {
    const uint8_t* row = blob->calls + AT_CALL_BYTES * (size_t)i;
    const uint64_t first = at_u32(row + AT_CALL_AT_FIRST_OUTPUT), count = at_u32(row + AT_CALL_AT_OUTPUTS);
    if (at_u32(row + AT_CALL_AT_NAME) >= blob->string_count || at_u32(row + AT_CALL_AT_ARGUMENTS) >= blob->string_count)
      return AT_BAD_LISTS;
    outputs += count;
    if (first + count > blob->operand_count || outputs > blob->operand_count) return AT_BAD_LISTS;
    for (uint64_t k = first; k < first + count; ++k) {
      if (at_operand(blob, k) == AT_NOTHING) return AT_BAD_LISTS;
    }
  }
  return check_initial(l);
}

int at_load_instructions(loader* l) {
  atalla_blob* blob = l->blob;
  if (l->insn.size % AT_INSTRUCTION_BYTES || l->insn.size / AT_INSTRUCTION_BYTES > AT_MOST_ROWS || !l->insn.size)
    return AT_BAD_INSTRUCTION;
  blob->insn_count = (uint32_t)(l->insn.size / AT_INSTRUCTION_BYTES);
  blob->insns = calloc(blob->insn_count, sizeof *blob->insns);
  if (!blob->insns) return ATALLA_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const uint8_t* row = l->insn.at + AT_INSTRUCTION_BYTES * (size_t)i;
    at_insn* insn = &blob->insns[i];
    *insn = (at_insn){.op = at_u16(row + AT_INSTRUCTION_AT_OP),
                      .sources = at_u16(row + AT_INSTRUCTION_AT_SOURCES),
                      .dst = at_u32(row + AT_INSTRUCTION_AT_DST),
                      .first_source = at_u32(row + AT_INSTRUCTION_AT_FIRST_SOURCE),
                      .first_word = at_u32(row + AT_INSTRUCTION_AT_FIRST_WORD),
                      .words = at_u32(row + AT_INSTRUCTION_AT_WORDS),
                      .node = at_u32(row + AT_INSTRUCTION_AT_NODE),
                      .line = at_u32(row + AT_INSTRUCTION_AT_LINE)};
    if (insn->op >= AT_OP_COUNT || at_u32(row + AT_INSTRUCTION_AT_ZERO)) return AT_BAD_INSTRUCTION;
    if ((insn->op == AT_OP_END) != (i + 1 == blob->insn_count)) return AT_BAD_INSTRUCTION;
    if (insn->node >= blob->string_count || insn->line >= blob->string_count) return AT_BAD_INSTRUCTION;
    if ((uint64_t)insn->first_source + insn->sources > blob->operand_count) return AT_BAD_INSTRUCTION;
    if ((uint64_t)insn->first_word + insn->words > blob->word_count) return AT_BAD_INSTRUCTION;
    const bool has_dst = insn->op != AT_OP_END && insn->op != AT_OP_CALL_HOST;
    if (has_dst ? insn->dst >= blob->tensor_count : insn->dst != AT_NOTHING) return AT_BAD_INSTRUCTION;
  }
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const int fault = at_check_instruction(blob, &blob->insns[i]);
    if (fault) return fault;
  }
  return at_check_flow(blob);
}
