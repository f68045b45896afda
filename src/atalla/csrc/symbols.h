// Symbols of a blob, and what is worked out of them; see "symbols.c".
#pragma once

#include "load.h"

typedef struct {
  uint32_t name, input, dim;
  int64_t least, most, factor, summand;  // the dim is factor · symbol + summand
} at_symbol;

typedef struct {
  uint32_t kind, row, field, node;
} at_patch;

at_symbol at_symbol_at(const atalla_blob* blob, uint32_t number);
at_patch at_patch_at(const atalla_blob* blob, uint32_t number);
// Where a patch of a tensor goes.
int64_t* at_field_of(at_tensor* tensor, uint32_t field);
const at_tensor* at_input_of(const atalla_blob* blob, uint32_t number);

// Symbols of the sizes of inputs; `bad` gets the first that no dim sets to a value in its range.
bool at_bind(const atalla_blob* blob, const int64_t* const* shapes, int64_t* symbols, uint32_t* bad);
// Works out all nodes; false where one has no value, or one beyond the cap.
bool at_evaluate(const atalla_blob* blob, const int64_t* symbols, int64_t* values);
bool at_guards_hold(const atalla_blob* blob, const int64_t* values);
