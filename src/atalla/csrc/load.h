// A blob while it is looked at.
#pragma once

#include "internal.h"

typedef struct {
  const uint8_t* at;
  uint64_t size;
} section;

typedef struct {
  const uint8_t* bytes;
  size_t size;
  bool is_trusted;  // HOST calls may name any operator
  uint32_t sections;
  union {
    section known[AT_KNOWN_SECTIONS];  // in the order of AT_SECTION_NAMES
    struct {
      section strt, oper, tens, insn, attr, iotb, host, cnst, stat, syms;
    };
  };
  atalla_blob* blob;
} loader;

// The steps of the strict loader, in their order; 0 or a verdict each.
int at_load_header(loader* l);
int at_load_sections(loader* l);
int at_load_strings(loader* l);
int at_load_tensors(loader* l);
int at_load_lists(loader* l);
int at_load_instructions(loader* l);
int at_load_symbols(loader* l);
int at_load_calls(loader* l);

// String `number` of a loaded blob; no zero ends it.
typedef struct {
  const char* at;
  size_t size;
} at_text;

at_text at_string(const atalla_blob* blob, uint32_t number);

// Whether a tensor's dims and strides are in their caps, and those beyond its rank are zero.
bool at_dims_fit(const at_tensor* tensor);
// First and last element that a view reaches, from its root's first; false where it has none.
bool at_reach(const at_tensor* tensor, __int128* low, __int128* high);
// Whether a tensor stays in its storage, and a storage in its space; 0 or a verdict.
int at_check_tensor(const atalla_blob* blob, uint32_t number);
