// Dynamic shapes: symbols are bound to the sizes of inputs, numbers are worked out of them, and go where they belong.
//
// The tables of a blob hold what is worked out for the sizes of an example, so that it is sound as it stands. For other
// sizes the tables are written again, and looked at by the same checks.
#include "symbols.h"

#include <stdlib.h>

at_symbol at_symbol_at(const atalla_blob* blob, uint32_t number) {
  const uint8_t* row = blob->dynamic.symbols + AT_SYMBOL_BYTES * (size_t)number;
  return (at_symbol){.name = at_u32(row + AT_SYMBOL_AT_NAME),
                     .least = (int64_t)at_u64(row + AT_SYMBOL_AT_LEAST),
                     .most = (int64_t)at_u64(row + AT_SYMBOL_AT_MOST),
                     .input = at_u32(row + AT_SYMBOL_AT_INPUT),
                     .dim = at_u32(row + AT_SYMBOL_AT_DIM),
                     .factor = (int64_t)at_u64(row + AT_SYMBOL_AT_FACTOR),
                     .summand = (int64_t)at_u64(row + AT_SYMBOL_AT_SUMMAND)};
}

at_patch at_patch_at(const atalla_blob* blob, uint32_t number) {
  const uint8_t* row = blob->dynamic.patches + AT_PATCH_BYTES * (size_t)number;
  return (at_patch){at_u32(row + AT_PATCH_AT_KIND), at_u32(row + AT_PATCH_AT_ROW), at_u32(row + AT_PATCH_AT_FIELD),
                    at_u32(row + AT_PATCH_AT_NODE)};
}

static bool in_cap(int64_t value) { return value <= (int64_t)AT_MOST_BYTES && value >= -(int64_t)AT_MOST_BYTES; }

bool at_evaluate(const atalla_blob* blob, const int64_t* symbols, int64_t* values) {
  for (uint32_t i = 0; i < blob->dynamic.node_count; ++i) {
    const uint8_t* row = blob->dynamic.nodes + AT_NODE_BYTES * (size_t)i;
    const uint32_t kind = at_u32(row + AT_NODE_AT_KIND);
    const int64_t first = (int64_t)at_u64(row + AT_NODE_AT_A), second = (int64_t)at_u64(row + AT_NODE_AT_B);
    if (kind == AT_NODE_CONST || kind == AT_NODE_SYMBOL) {
      values[i] = kind == AT_NODE_CONST ? first : symbols[first];
      continue;
    }
    const int64_t a = values[first], b = values[second];
    __int128 made;
    switch (kind) {
      case AT_NODE_ADD:
        made = (__int128)a + b;
        break;
      case AT_NODE_MUL:
        made = (__int128)a * b;
        break;
      case AT_NODE_FLOOR_DIV:
        if (b < 1) return false;
        made = a / b - (a % b < 0);
        break;
      case AT_NODE_MOD:
        if (b < 1) return false;
        made = a % b + (a % b < 0 ? b : 0);
        break;
      case AT_NODE_MIN:
        made = a < b ? a : b;
        break;
      default:
        made = a > b ? a : b;
    }
    if (made > (__int128)AT_MOST_BYTES || made < -(__int128)AT_MOST_BYTES) return false;
    values[i] = (int64_t)made;
  }
  return true;
}

bool at_guards_hold(const atalla_blob* blob, const int64_t* values) {
  for (uint32_t i = 0; i < blob->dynamic.guard_count; ++i) {
    const uint8_t* row = blob->dynamic.guards + AT_GUARD_BYTES * (size_t)i;
    const int64_t value = values[at_u32(row + AT_GUARD_AT_NODE)];
    if (value < (int64_t)at_u64(row + AT_GUARD_AT_LEAST) || value > (int64_t)at_u64(row + AT_GUARD_AT_MOST))
      return false;
  }
  return true;
}

int64_t* at_field_of(at_tensor* tensor, uint32_t field) {
  if (!field) return &tensor->offset;
  return field <= AT_DIMS ? &tensor->dim[field - 1] : &tensor->stride[field - 1 - AT_DIMS];
}

static int64_t stored(const atalla_blob* blob, at_patch p) {
  if (p.kind == AT_PATCH_TENSOR) return *at_field_of(&blob->tensors[p.row], p.field);
  if (p.kind == AT_PATCH_WORD) return (int64_t)at_u64(blob->words + 8 * (size_t)p.row);
  return (int64_t)at_u64(at_output_row(blob, (size_t)blob->input_count + p.row) + AT_OUTPUT_AT_VALUE);
}

static bool names_sound(const atalla_blob* blob) {
  for (uint32_t i = 0; i < blob->dynamic.symbol_count; ++i) {
    const at_symbol s = at_symbol_at(blob, i);
    if (at_u32(blob->dynamic.symbols + AT_SYMBOL_BYTES * (size_t)i + AT_SYMBOL_AT_ZERO) || s.name >= blob->string_count)
      return false;
    if (s.least < 0 || s.least > s.most || !in_cap(s.most)) return false;
    if (s.input >= blob->input_count || s.factor < 1 || s.factor > AT_MOST_FACTOR || !in_cap(s.summand)) return false;
    if (s.dim >= at_input_of(blob, s.input)->rank) return false;
  }
  return true;
}

static bool nodes_sound(const atalla_blob* blob) {
  for (uint32_t i = 0; i < blob->dynamic.node_count; ++i) {
    const uint8_t* row = blob->dynamic.nodes + AT_NODE_BYTES * (size_t)i;
    const uint32_t kind = at_u32(row + AT_NODE_AT_KIND);
    const uint64_t a = at_u64(row + AT_NODE_AT_A), b = at_u64(row + AT_NODE_AT_B);
    if (kind >= AT_NODE_COUNT || at_u32(row + AT_NODE_AT_ZERO)) return false;
    if (kind == AT_NODE_CONST ? !in_cap((int64_t)a) || b : false) return false;
    if (kind == AT_NODE_SYMBOL ? a >= blob->dynamic.symbol_count || b : false) return false;
    if (kind > AT_NODE_SYMBOL && (a >= i || b >= i)) return false;
  }
  for (uint32_t i = 0; i < blob->dynamic.guard_count; ++i) {
    const uint8_t* row = blob->dynamic.guards + AT_GUARD_BYTES * (size_t)i;
    if (at_u32(row + AT_GUARD_AT_NODE) >= blob->dynamic.node_count || at_u32(row + AT_GUARD_AT_ZERO)) return false;
  }
  return true;
}

// Patches are sorted, so that none is there twice.
static bool patches_sound(const atalla_blob* blob) {
  at_patch before = {0, 0, 0, 0};
  for (uint32_t i = 0; i < blob->dynamic.patch_count; ++i) {
    const at_patch p = at_patch_at(blob, i);
    if (i && (p.kind != before.kind ? p.kind < before.kind
              : p.row != before.row ? p.row < before.row
                                    : p.field <= before.field)) {
      return false;
    }
    before = p;
    if (p.kind >= AT_PATCH_COUNT || p.node >= blob->dynamic.node_count) return false;
    if (p.kind == AT_PATCH_TENSOR) {
      if (p.row >= blob->tensor_count || p.field > 2 * AT_DIMS) return false;
      const at_tensor* t = &blob->tensors[p.row];
      if (t->layout != AT_STRIDED || (p.field && (p.field - 1) % AT_DIMS >= t->rank)) return false;
      continue;
    }
    if (p.field || p.row >= (p.kind == AT_PATCH_WORD ? blob->word_count : blob->output_count)) return false;
    if (p.kind == AT_PATCH_OUTPUT && at_u32(at_output_row(blob, (size_t)blob->input_count + p.row)) != AT_KIND_INT)
      return false;
  }
  return true;
}

bool at_bind(const atalla_blob* blob, const int64_t* const* shapes, int64_t* symbols, uint32_t* bad) {
  for (uint32_t i = 0; i < blob->dynamic.symbol_count; ++i) {
    const at_symbol s = at_symbol_at(blob, i);
    const __int128 rest = (__int128)shapes[s.input][s.dim] - s.summand;
    *bad = i;
    if (rest < 0 || rest % s.factor || rest / s.factor < s.least || rest / s.factor > s.most) return false;
    symbols[i] = (int64_t)(rest / s.factor);
  }
  return true;
}

const at_tensor* at_input_of(const atalla_blob* blob, uint32_t number) {
  return &blob->tensors[at_u32(at_output_row(blob, number) + AT_OUTPUT_AT_TENSOR)];
}

// What stands in the tables is what is worked out of the sizes of the inputs that stand there, too.
static int check_example(const atalla_blob* blob) {
  const at_symbols* d = &blob->dynamic;
  const int64_t** shapes = calloc(blob->input_count + 1u, sizeof *shapes);
  int64_t* symbols = calloc(d->symbol_count + 1u, sizeof *symbols);
  int64_t* values = calloc(d->node_count + 1u, sizeof *values);
  int fault = shapes && symbols && values ? 0 : ATALLA_OUT_OF_MEMORY;
  if (!fault) {
    for (uint32_t i = 0; i < blob->input_count; ++i) shapes[i] = at_input_of(blob, i)->dim;
    uint32_t bad;
    if (!at_bind(blob, shapes, symbols, &bad) || !at_evaluate(blob, symbols, values) || !at_guards_hold(blob, values)) {
      fault = AT_BAD_SYMBOLS;
    }
    for (uint32_t i = 0; i < d->patch_count && !fault; ++i) {
      const at_patch p = at_patch_at(blob, i);
      if (stored(blob, p) != values[p.node]) fault = AT_BAD_SYMBOLS;
    }
  }
  free(shapes);
  free(symbols);
  free(values);
  return fault;
}

int at_load_symbols(loader* l) {
  at_symbols* d = &l->blob->dynamic;
  if (!l->syms.at) return 0;
  if (l->syms.size < AT_SYMBOLS_BYTES) return AT_BAD_SYMBOLS;
  const uint8_t* at = l->syms.at;
  d->symbol_count = at_u32(at + AT_SYMBOLS_AT_SYMBOLS);
  d->node_count = at_u32(at + AT_SYMBOLS_AT_NODES);
  d->guard_count = at_u32(at + AT_SYMBOLS_AT_GUARDS);
  d->patch_count = at_u32(at + AT_SYMBOLS_AT_PATCHES);
  d->symbols = at + AT_SYMBOLS_BYTES;
  const uint64_t nodes = AT_SYMBOL_BYTES * (uint64_t)d->symbol_count,
                 guards = nodes + AT_NODE_BYTES * (uint64_t)d->node_count,
                 patches = guards + AT_GUARD_BYTES * (uint64_t)d->guard_count;
  if (AT_SYMBOLS_BYTES + patches + AT_PATCH_BYTES * (uint64_t)d->patch_count != l->syms.size) return AT_BAD_SYMBOLS;
  d->nodes = d->symbols + nodes;
  d->guards = d->symbols + guards;
  d->patches = d->symbols + patches;
  if (!names_sound(l->blob) || !nodes_sound(l->blob) || !patches_sound(l->blob)) return AT_BAD_SYMBOLS;
  return check_example(l->blob);
}
