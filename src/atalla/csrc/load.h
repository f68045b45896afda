// A blob while it is looked at.
#pragma once

#include "internal.h"

enum { HEADER = 64, ROW = 32, TENSOR = 168, INSN = 32, OUTPUT = 16, CALL = 16, PAGE = 4096 };
enum { MOST_SECTIONS = 64, MOST_TENSORS = 1 << 20, MOST_INSNS = 1 << 20 };
#define MOST_BYTES ((uint64_t)1 << 40)

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

// The steps of the strict loader, in their order; 0 or a verdict each.
int at_load_header(loading* l);
int at_load_sections(loading* l);
int at_load_strings(loading* l);
int at_load_tensors(loading* l);
int at_load_lists(loading* l);
int at_load_instructions(loading* l);
