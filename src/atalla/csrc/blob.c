// The strict loader: proves that bytes are a sound program. "loader.py" looks at the same things in the same order.
//
// Nothing is read beyond what an earlier check allows; sums and products that may overflow are taken in 128 bits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "crc.h"
#include "internal.h"

enum { HEADER = 64, ROW = 32, TENSOR = 168, INSN = 32, OUTPUT = 16, CALL = 16, PAGE = 4096 };
enum { MOST_SECTIONS = 64, MOST_TENSORS = 1 << 20, MOST_INSNS = 1 << 20 };
static const uint64_t MOST_BYTES = (uint64_t)1 << 40;

typedef struct {
  const uint8_t* at;
  uint64_t size;
} section;

typedef struct {
  const uint8_t* bytes;
  size_t size;
  uint32_t sections;
  section strt, oper, tens, insn, attr, iotb, host, cnst;
  atalla_blob* blob;
} loading;

static int check_header(loading* l) {
  const uint8_t* b = l->bytes;
  if (l->size < HEADER) return AT_BAD_SIZE;
  if (memcmp(b, "ATLB\r\n\x1a\n", 8) != 0) return AT_BAD_MAGIC;
  if (at_u32(b + 12) != 0x01020304u) return AT_BAD_ENDIAN;
  if (b[8] != 1 || b[9] != 0 || at_u32(b + 20) != 0) return AT_BAD_VERSION;
  l->sections = at_u32(b + 16);
  if (at_u64(b + 24) != l->size) return AT_BAD_SIZE;
  if (l->sections > MOST_SECTIONS || HEADER + (uint64_t)ROW * l->sections > l->size) return AT_BAD_HEADER;
  at_crc table;
  at_crc_init(&table);
  uint8_t head[HEADER];
  memcpy(head, b, HEADER);
  memset(head + 48, 0, 4);
  const uint32_t crc = at_crc_of(&table, at_crc_of(&table, 0, head, HEADER), b + HEADER, ROW * (size_t)l->sections);
  if (crc != at_u32(b + 48)) return AT_BAD_HEADER;
  for (int i = 52; i < HEADER; ++i) {
    if (b[i]) return AT_BAD_HEADER;
  }
  l->blob->arena_bytes = at_u64(b + 32);
  l->blob->state_bytes = at_u64(b + 40);
  if (l->blob->arena_bytes > MOST_BYTES || l->blob->state_bytes > MOST_BYTES) return AT_BAD_HEADER;
  return 0;
}

static section* named(loading* l, const uint8_t* name) {
  static const char names[8][5] = {"STRT", "OPER", "TENS", "INSN", "ATTR", "IOTB", "HOST", "CNST"};
  section* const places[8] = {&l->strt, &l->oper, &l->tens, &l->insn, &l->attr, &l->iotb, &l->host, &l->cnst};
  for (int i = 0; i < 8; ++i) {
    if (memcmp(name, names[i], 4) == 0) return places[i];
  }
  return NULL;
}

// Sections follow each other in the order of the table, so that none overlaps another.
static int check_sections(loading* l) {
  uint64_t end = HEADER + (uint64_t)ROW * l->sections;
  for (uint32_t i = 0; i < l->sections; ++i) {
    const uint8_t* row = l->bytes + HEADER + ROW * (size_t)i;
    const uint32_t required = at_u32(row + 4), align = at_u32(row + 24);
    const uint64_t at = at_u64(row + 8), size = at_u64(row + 16);
    section* place = named(l, row);
    if (required > 1 || (!place && required)) return AT_BAD_SECTION;
    if (align != 8 && align != PAGE) return AT_BAD_SECTION;
    if (place == &l->cnst && align != PAGE) return AT_BAD_SECTION;
    if (at % align || at < end || at > l->size || size > l->size - at) return AT_BAD_SECTION;
    for (uint64_t k = end; k < at; ++k) {
      if (l->bytes[k]) return AT_BAD_SECTION;
    }
    if (place && place->at) return AT_BAD_SECTION;
    if (place) *place = (section){l->bytes + at, size};
    end = at + size;
  }
  for (int i = 0; i < 8; ++i) {
    static const char all[] = "STRTOPERTENSINSNATTRIOTBHOSTCNST";
    if (!named(l, (const uint8_t*)all + 4 * i)->at) return AT_BAD_SECTION;
  }
  if (end != l->size) return AT_BAD_SECTION;
  at_crc table;
  at_crc_init(&table);
  for (uint32_t i = 0; i < l->sections; ++i) {
    const uint8_t* row = l->bytes + HEADER + ROW * (size_t)i;
    if (at_crc_of(&table, 0, l->bytes + at_u64(row + 8), (size_t)at_u64(row + 16)) != at_u32(row + 28)) {
      return AT_BAD_CHECKSUM;
    }
  }
  return 0;
}

static bool is_utf8(const uint8_t* at, size_t size) {
  for (size_t i = 0; i < size;) {
    const uint8_t first = at[i];
    if (first < 0x80) {
      ++i;
      continue;
    }
    const int more = first >= 0xc2 && first < 0xe0   ? 1
                     : first >= 0xe0 && first < 0xf0 ? 2
                     : first >= 0xf0 && first < 0xf5 ? 3
                                                     : 0;
    if (!more || size - i <= (size_t)more) return false;
    const uint8_t second = at[i + 1];
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return false;
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return false;
    for (int k = 1; k <= more; ++k) {
      if ((at[i + (size_t)k] & 0xc0) != 0x80) return false;
    }
    i += 1 + (size_t)more;
  }
  return true;
}

static int check_strings(loading* l) {
  const section* s = &l->strt;
  if (s->size < 4) return AT_BAD_STRINGS;
  const uint64_t count = at_u32(s->at), head = 4 + 4 * count;
  if (head > s->size) return AT_BAD_STRINGS;
  uint64_t begin = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t end = at_u32(s->at + 4 + 4 * i);
    if (end < begin || end > s->size - head) return AT_BAD_STRINGS;
    if (!is_utf8(s->at + head + begin, (size_t)(end - begin))) return AT_BAD_STRINGS;
    begin = end;
  }
  if (begin != s->size - head) return AT_BAD_STRINGS;
  l->blob->strings = s->at;
  l->blob->string_count = (uint32_t)count;
  return 0;
}

static int read_tensor(const loading* l, const uint8_t* row, uint32_t number, at_tensor* t) {
  *t = (at_tensor){.dtype = row[0], .rank = row[1], .space = row[2], .layout = row[3], .root = at_u32(row + 4)};
  t->offset = (int64_t)at_u64(row + 8);
  t->bytes = at_u64(row + 16);
  t->place = (int64_t)at_u64(row + 24);
  for (int i = 0; i < AT_DIMS; ++i) {
    t->dim[i] = (int64_t)at_u64(row + 32 + 8 * i);
    t->stride[i] = (int64_t)at_u64(row + 96 + 8 * i);
  }
  t->name = at_u32(row + 160);
  if (t->dtype < 1 || t->dtype >= AT_DTYPE_COUNT || t->rank > AT_DIMS) return AT_BAD_TENSOR;
  if (t->space < 1 || t->space >= AT_SPACE_COUNT || t->layout >= AT_LAYOUT_COUNT) return AT_BAD_TENSOR;
  if (t->root > number || t->name >= l->blob->string_count || at_u32(row + 164)) return AT_BAD_TENSOR;
  if (t->layout != AT_STRIDED && (t->space != AT_CONST || t->root != number)) return AT_BAD_TENSOR;
  for (int i = 0; i < AT_DIMS; ++i) {
    if (t->dim[i] < 0 || (i >= t->rank && (t->dim[i] || t->stride[i]))) return AT_BAD_TENSOR;
    if ((uint64_t)t->dim[i] > MOST_BYTES ||
        (t->stride[i] < 0 ? -(t->stride[i] + 1) : t->stride[i]) > (int64_t)MOST_BYTES) {
      return AT_BAD_TENSOR;
    }
  }
  return 0;
}

// First and last element that a view reaches, from its root's first; false where it has none.
static bool reach(const at_tensor* t, __int128* low, __int128* high) {
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
    if (dim > MOST_BYTES / count) return false;
    count *= dim;
  }
  return true;
}

static int check_tensor(const loading* l, uint32_t number) {
  const atalla_blob* blob = l->blob;
  const at_tensor *t = &blob->tensors[number], *root = &blob->tensors[t->root];
  if (!is_countable(t)) return AT_BAD_TENSOR;
  if (root->root != t->root || root->space != t->space || (t->root != number && root->layout != AT_STRIDED)) {
    return AT_BAD_TENSOR;
  }
  __int128 low, high;
  const __int128 size = (__int128)at_size(t->dtype);
  if (t->layout == AT_STRIDED && reach(t, &low, &high) && (low < 0 || (high + 1) * size > (__int128)root->bytes)) {
    return AT_BAD_BOUNDS;
  }
  if ((__int128)t->offset * size > (__int128)root->bytes || t->offset < 0) return AT_BAD_BOUNDS;
  if (t->root != number) return t->bytes || t->place ? AT_BAD_TENSOR : 0;
  if (t->offset || t->place < 0) return AT_BAD_TENSOR;
  const uint64_t spaces[AT_SPACE_COUNT] = {
      [AT_CONST] = l->cnst.size, [AT_ARENA] = blob->arena_bytes, [AT_STATE] = blob->state_bytes};
  if (t->space == AT_INPUT || t->space == AT_OUTPUT) return t->bytes > MOST_BYTES ? AT_BAD_BOUNDS : 0;
  if (t->place % AT_LINE) return AT_BAD_BOUNDS;
  if (t->bytes > spaces[t->space] || (uint64_t)t->place > spaces[t->space] - t->bytes) return AT_BAD_BOUNDS;
  if (t->layout != AT_STRIDED && !at_packed_fits(t)) return AT_BAD_BOUNDS;
  return 0;
}

static int check_tensors(loading* l) {
  atalla_blob* blob = l->blob;
  if (l->tens.size % TENSOR || l->tens.size / TENSOR > MOST_TENSORS) return AT_BAD_TENSOR;
  blob->tensor_count = (uint32_t)(l->tens.size / TENSOR);
  blob->tensors = calloc(blob->tensor_count ? blob->tensor_count : 1, sizeof *blob->tensors);
  if (!blob->tensors) return ATALLA_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const int fault = read_tensor(l, l->tens.at + TENSOR * (size_t)i, i, &blob->tensors[i]);
    if (fault) return fault;
  }
  for (uint32_t i = 0; i < blob->tensor_count; ++i) {
    const int fault = check_tensor(l, i);
    if (fault) return fault;
  }
  blob->constants = l->cnst.at;
  blob->constant_bytes = l->cnst.size;
  return 0;
}

// Inputs, outputs, operands and calls: every number is of something that is there.
static int check_lists(loading* l) {
  atalla_blob* blob = l->blob;
  if (l->oper.size % 4 || l->attr.size % 8 || l->host.size % CALL || l->iotb.size < 8) return AT_BAD_LISTS;
  if (l->oper.size / 4 > UINT32_MAX || l->attr.size / 8 > UINT32_MAX || l->host.size / CALL > MOST_INSNS)
    return AT_BAD_LISTS;
  blob->operands = l->oper.at;
  blob->operand_count = (uint32_t)(l->oper.size / 4);
  blob->words = l->attr.at;
  blob->word_count = (uint32_t)(l->attr.size / 8);
  blob->calls = l->host.at;
  blob->call_count = (uint32_t)(l->host.size / CALL);
  blob->input_count = at_u32(l->iotb.at);
  blob->output_count = at_u32(l->iotb.at + 4);
  blob->io = l->iotb.at + 8;
  if (8 + OUTPUT * ((uint64_t)blob->input_count + blob->output_count) != l->iotb.size) return AT_BAD_LISTS;
  for (uint32_t i = 0; i < blob->operand_count; ++i) {
    const uint32_t number = at_u32(blob->operands + 4 * (size_t)i);
    if (number != AT_NOTHING && number >= blob->tensor_count) return AT_BAD_LISTS;
  }
  for (uint32_t i = 0; i < blob->input_count + blob->output_count; ++i) {
    const uint8_t* row = blob->io + OUTPUT * (size_t)i;
    const uint32_t kind = at_u32(row), number = at_u32(row + 4);
    const bool is_input = i < blob->input_count;
    if (kind > (is_input ? 0u : 4u)) return AT_BAD_LISTS;
    if (kind) {
      if (number != AT_NOTHING) return AT_BAD_LISTS;
      continue;
    }
    if (number >= blob->tensor_count || at_u64(row + 8)) return AT_BAD_LISTS;
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
    const uint8_t* row = blob->io + OUTPUT * ((size_t)first + (size_t)t->place);
    if (at_u32(row) || at_u32(row + 4) != i) return AT_BAD_LISTS;
  }
  for (uint32_t i = 0; i < blob->call_count; ++i) {
    const uint8_t* row = blob->calls + CALL * (size_t)i;
    const uint64_t first = at_u32(row + 8), count = at_u32(row + 12);
    if (at_u32(row) >= blob->string_count || at_u32(row + 4) >= blob->string_count) return AT_BAD_LISTS;
    if (first + count > blob->operand_count) return AT_BAD_LISTS;
    for (uint64_t k = first; k < first + count; ++k) {
      if (at_u32(blob->operands + 4 * k) == AT_NOTHING) return AT_BAD_LISTS;
    }
  }
  return 0;
}

static int check_instructions(loading* l) {
  atalla_blob* blob = l->blob;
  if (l->insn.size % INSN || l->insn.size / INSN > MOST_INSNS || !l->insn.size) return AT_BAD_INSTRUCTION;
  blob->insn_count = (uint32_t)(l->insn.size / INSN);
  blob->insns = calloc(blob->insn_count, sizeof *blob->insns);
  if (!blob->insns) return ATALLA_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < blob->insn_count; ++i) {
    const uint8_t* row = l->insn.at + INSN * (size_t)i;
    at_insn* insn = &blob->insns[i];
    *insn = (at_insn){.op = (uint16_t)(row[0] | row[1] << 8),
                      .sources = (uint16_t)(row[2] | row[3] << 8),
                      .dst = at_u32(row + 4),
                      .first_source = at_u32(row + 8),
                      .first_word = at_u32(row + 12),
                      .words = at_u32(row + 16),
                      .node = at_u32(row + 20),
                      .line = at_u32(row + 24)};
    if (insn->op >= AT_OP_COUNT || at_u32(row + 28)) return AT_BAD_INSTRUCTION;
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

int atalla_open(const void* bytes, size_t size, atalla_blob** result, atalla_error* error) {
  if (!bytes || !result) return ATALLA_BAD_ARGUMENT;
  loading l = {.bytes = bytes, .size = size, .blob = calloc(1, sizeof *l.blob)};
  int fault = l.blob ? 0 : ATALLA_OUT_OF_MEMORY;
  if (l.blob) {
    l.blob->bytes = bytes;
    l.blob->size = size;
  }
  int (*const steps[])(loading*) = {check_header,  check_sections, check_strings,
                                    check_tensors, check_lists,    check_instructions};
  for (size_t i = 0; i < sizeof steps / sizeof *steps && !fault; ++i) fault = steps[i](&l);
  if (fault) {
    atalla_close(l.blob);
    if (error && error->struct_size >= sizeof *error) {
      error->status = fault;
      snprintf(error->text, sizeof error->text, "%s", at_verdict(fault));
    }
    return fault;
  }
  *result = l.blob;
  return ATALLA_OK;
}

void atalla_close(atalla_blob* blob) {
  if (!blob) return;
  free(blob->tensors);
  free(blob->insns);
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
  return ATALLA_OK;
}
