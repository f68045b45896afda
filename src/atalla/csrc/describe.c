// Descriptions: what a loaded program takes, returns, and does; for callers that check before they run.
#include "load.h"

static int describe(const atalla_blob* blob, uint32_t row, atalla_tensor* tensor) {
  const uint8_t* io = at_output_row(blob, row);
  *tensor = (atalla_tensor){.struct_size = tensor->struct_size};
  if (at_u32(io + AT_OUTPUT_AT_KIND) != AT_KIND_TENSOR) return ATALLA_OK;
  const at_tensor* found = &blob->tensors[at_u32(io + AT_OUTPUT_AT_TENSOR)];
  tensor->dtype = found->dtype;
  tensor->rank = found->rank;
  tensor->shape = found->dim;
  tensor->strides = found->stride;
  return ATALLA_OK;
}

int atalla_describe_input(const atalla_blob* blob, uint32_t index, atalla_tensor* tensor) {
  if (!blob || !tensor || tensor->struct_size < sizeof *tensor || index >= blob->input_count) {
    return ATALLA_BAD_ARGUMENT;
  }
  return describe(blob, index, tensor);
}

int atalla_describe_output(const atalla_blob* blob, uint32_t index, atalla_tensor* tensor) {
  if (!blob || !tensor || tensor->struct_size < sizeof *tensor || index >= blob->output_count) {
    return ATALLA_BAD_ARGUMENT;
  }
  return describe(blob, blob->input_count + index, tensor);
}

int atalla_describe_instruction(const atalla_blob* blob, uint32_t index, atalla_instruction* instruction) {
  static const char* const names[AT_OP_COUNT] = AT_OP_NAMES;
  if (!blob || !instruction || instruction->struct_size < sizeof *instruction || index >= blob->insn_count) {
    return ATALLA_BAD_ARGUMENT;
  }
  const at_text node = at_string(blob, blob->insns[index].node);
  instruction->op = names[blob->insns[index].op];
  instruction->node = node.at;
  instruction->node_size = node.size;
  return ATALLA_OK;
}

int atalla_describe_value(const atalla_blob* blob, uint32_t index, uint32_t* kind, int64_t* value) {
  if (!blob || !kind || !value || index >= blob->output_count) return ATALLA_BAD_ARGUMENT;
  const uint8_t* row = at_output_row(blob, (size_t)blob->input_count + index);
  *kind = at_u32(row + AT_OUTPUT_AT_KIND);
  *value = (int64_t)at_u64(row + AT_OUTPUT_AT_VALUE);
  return ATALLA_OK;
}
