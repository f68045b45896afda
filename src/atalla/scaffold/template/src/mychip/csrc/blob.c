// Reads a blob: whatever its bytes are, what passes here can be run without leaving the chip's memory.
#include <string.h>

#include "mychip.h"

// magic, then version, checksum of all that follows, and six counts; then tensors, instructions, inputs, outputs and
// constants, all of little-endian words of 32 bits.
enum { MAGIC = 8, COUNTED = MAGIC + 2 * 4, HEADER = COUNTED + 6 * 4 };

// CRC-32 as zlib has it.
static uint32_t checksum(const unsigned char* bytes, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1));
  }
  return ~crc;
}

static uint64_t floats(const mychip_tensor* t) { return (uint64_t)t->rows * t->columns; }

static int is_constant(const mychip_blob* blob, uint32_t number) {
  return blob->tensor[number].place < blob->constants;
}

static int same_shape(const mychip_tensor* a, const mychip_tensor* b) {
  return a->rows == b->rows && a->columns == b->columns;
}

static int apart(const mychip_tensor* a, const mychip_tensor* b) {
  return a->place + floats(a) <= b->place || b->place + floats(b) <= a->place;
}

static int shapes_fit(const mychip_blob* blob, const mychip_instruction* one) {
  const mychip_tensor *result = &blob->tensor[one->result], *x = &blob->tensor[one->sources[0]];
  if (one->op == MYCHIP_RELU) return same_shape(result, x);
  const mychip_tensor* y = &blob->tensor[one->sources[1]];
  if (one->op != MYCHIP_LINEAR) return same_shape(result, x) && same_shape(result, y);
  if (result->rows != x->rows || result->columns != y->rows || x->columns != y->columns) return 0;
  if (one->sources[2] == MYCHIP_NONE) return 1;
  const mychip_tensor* bias = &blob->tensor[one->sources[2]];
  return bias->rows == 1 && bias->columns == y->rows;
}

static const char* check_instruction(const mychip_blob* blob, const mychip_instruction* one) {
  static const uint32_t least[] = {0, 2, 1, 2, 2}, most[] = {0, 3, 1, 2, 2};  // sources of each operation
  if (one->op < MYCHIP_LINEAR || one->op > MYCHIP_MUL) return "an instruction that the chip does not have";
  if (one->result >= blob->tensors || is_constant(blob, one->result)) return "an instruction writes to no tensor";
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t source = one->sources[i];
    const int is_absent = source == MYCHIP_NONE;
    if (is_absent ? i < least[one->op] : i >= most[one->op] || source >= blob->tensors)
      return "an instruction reads from no tensor";
    if (!is_absent && !apart(&blob->tensor[one->result], &blob->tensor[source]))
      return "an instruction overwrites what it reads";
  }
  return shapes_fit(blob, one) ? NULL : "an instruction whose shapes do not fit";
}

const char* mychip_read_blob(const void* bytes, size_t size, mychip_blob* blob) {
  uint32_t version, crc;
  if (size < HEADER || memcmp(bytes, MYCHIP_MAGIC, MAGIC) != 0) return "no blob of mychip";
  memcpy(&version, (const char*)bytes + MAGIC, 4);
  memcpy(&crc, (const char*)bytes + MAGIC + 4, 4);
  if (version != MYCHIP_VERSION) return "made for another version of mychip";
  if (crc != checksum((const unsigned char*)bytes + COUNTED, size - COUNTED)) return "damaged: its checksum is another";

  memcpy(blob, (const char*)bytes + COUNTED, 6 * 4);  // the six counts stand first in both
  const uint64_t words =
      3ull * blob->tensors + 5ull * blob->instructions + blob->inputs + (uint64_t)blob->outputs + blob->constants;
  if (size != HEADER + 4 * words) return "its size is not the one that its header says";
  if (blob->memory > MYCHIP_MEMORY_FLOATS || blob->constants > blob->memory) return "more memory than the chip has";
  blob->tensor = (const mychip_tensor*)((const char*)bytes + HEADER);
  blob->instruction = (const mychip_instruction*)(blob->tensor + blob->tensors);
  blob->input = (const uint32_t*)(blob->instruction + blob->instructions);
  blob->output = blob->input + blob->inputs;
  blob->constant = (const float*)(blob->output + blob->outputs);

  for (uint32_t i = 0; i < blob->tensors; ++i) {
    const mychip_tensor* t = &blob->tensor[i];
    const uint64_t end = t->place + floats(t);
    if (end > blob->memory || (t->place < blob->constants && end > blob->constants))
      return "a tensor outside of memory";
  }
  for (uint32_t i = 0; i < blob->inputs; ++i)
    if (blob->input[i] >= blob->tensors || is_constant(blob, blob->input[i])) return "an input that is no tensor";
  for (uint32_t i = 0; i < blob->outputs; ++i)
    if (blob->output[i] >= blob->tensors) return "an output that is no tensor";
  for (uint32_t i = 0; i < blob->instructions; ++i) {
    const char* why = check_instruction(blob, &blob->instruction[i]);
    if (why) return why;
  }
  return NULL;
}
