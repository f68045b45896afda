// Costs: see "costs.h".
#include "costs.h"

uint64_t at_vector_cycles(const atalla_hardware* hardware, uint64_t elements, at_steps steps) {
  const uint64_t groups = (elements + hardware->lanes - 1) / hardware->lanes;
  const uint32_t* cycles = hardware->vector_cycles;
  return groups * ((uint64_t)steps.simple * cycles[0] + (uint64_t)steps.divide * cycles[1] +
                   (uint64_t)steps.exponential * cycles[2] + (uint64_t)steps.requantise * cycles[3]);
}

// Elements that are moved or compared as they lie: as many at a time as have room in the parts of a lane.
static uint64_t packed_cycles(const atalla_hardware* hardware, uint64_t elements, uint8_t dtype, at_steps steps) {
  const uint64_t room = at_size(dtype) < 4 ? 4 / at_size(dtype) : 1, parts = hardware->vector_int8_factor;
  const uint64_t together = room < parts ? room : parts;
  return at_vector_cycles(hardware, (elements + together - 1) / together, steps);
}

// Taps of a filter for one channel. Of int8 several go into one sum at a time: a lane multiplies each of its bytes by
// one, and adds the products to the one sum that it reads and writes anyway. Channels would need a sum for each byte.
static uint32_t steps_of_taps(const atalla_hardware* hardware, bool is_int8, uint32_t taps) {
  const uint32_t together = is_int8 ? hardware->vector_int8_factor : 1;
  return (taps + together - 1) / together;
}

at_steps at_activation_steps(int64_t act) {
  static const at_steps steps[AT_ACT_COUNT] = {
      [AT_ACT_RELU] = {1, 0, 0, 0},        [AT_ACT_CLAMP] = {2, 0, 0, 0},     [AT_ACT_HARDSWISH] = {5, 0, 0, 0},
      [AT_ACT_HARDSIGMOID] = {4, 0, 0, 0}, [AT_ACT_SIGMOID] = {2, 1, 1, 0},   [AT_ACT_SILU] = {3, 1, 1, 0},
      [AT_ACT_GELU] = {5, 0, 1, 0},        [AT_ACT_GELU_TANH] = {8, 1, 1, 0}, [AT_ACT_TANH] = {3, 1, 1, 0},
  };
  return steps[act];
}

at_steps at_spread_steps(size_t edge) { return (at_steps){edge == 4 ? 2 : edge == 5 ? 1 : 4, 0, 0, 0}; }

at_steps at_gather_steps(size_t edge) { return (at_steps){edge == 5 ? 7 : 6, 0, 0, 0}; }

at_steps at_finish_steps(bool is_int8, bool has_residual, int64_t act) {
  if (is_int8) return (at_steps){0, 0, 0, 1};
  at_steps made = at_activation_steps(act);
  made.simple += 1u + has_residual;  // each is moved at least
  return made;
}

static at_steps steps_of_code(uint8_t code) {
  switch (code) {
    case AT_STEP_FLOAT:
    case AT_STEP_INT:
      return (at_steps){0, 0, 0, 0};
    case AT_STEP_DIV:
    case AT_STEP_SQRT:
    case AT_STEP_RSQRT:
    case AT_STEP_RECIPROCAL:
    case AT_STEP_FLOOR_DIV:
    case AT_STEP_REMAINDER:
      return (at_steps){0, 1, 0, 0};
    case AT_STEP_POW:
      return (at_steps){0, 0, 2, 0};
    case AT_STEP_EXP:
    case AT_STEP_LOG:
    case AT_STEP_ERF:
    case AT_STEP_SIN:
    case AT_STEP_COS:
    case AT_STEP_LOG1P:
    case AT_STEP_EXPM1:
    case AT_STEP_LOG2:
    case AT_STEP_LOG10:
      return (at_steps){0, 0, 1, 0};
    case AT_STEP_TANH:
      return at_activation_steps(AT_ACT_TANH);
    case AT_STEP_SIGMOID:
      return at_activation_steps(AT_ACT_SIGMOID);
    case AT_STEP_SILU:
      return at_activation_steps(AT_ACT_SILU);
    case AT_STEP_GELU:
      return at_activation_steps(AT_ACT_GELU);
    case AT_STEP_GELU_TANH:
      return at_activation_steps(AT_ACT_GELU_TANH);
    case AT_STEP_HARDSWISH:
      return at_activation_steps(AT_ACT_HARDSWISH);
    case AT_STEP_HARDSIGMOID:
      return at_activation_steps(AT_ACT_HARDSIGMOID);
    default:
      return (at_steps){1, 0, 0, 0};
  }
}

static at_steps steps_of_chain(const at_call* call) {
  at_steps sum = {1, 0, 0, 0};
  for (unsigned i = 0; i < call->word_count; ++i) {
    const at_steps one = steps_of_code(at_step_of(call->words[i]).code);
    sum.simple += one.simple;
    sum.divide += one.divide;
    sum.exponential += one.exponential;
  }
  return sum;
}

// Products [rows, depth] x [depth, columns], so many of them, by the matrix unit, in float32.
static uint64_t matrix_cycles(const atalla_hardware* h, uint64_t count, uint64_t rows, uint64_t depth,
                              uint64_t columns) {
  const uint64_t size = h->array, parts = (rows + h->accumulator_rows - 1) / h->accumulator_rows;
  const uint64_t here = parts ? (rows + parts - 1) / parts : 0, edges = here * h->matrix_f32_factor;
  const uint64_t tiles = (depth + size - 1) / size;
  if (!tiles || !here) return 0;
  const uint64_t chain = (tiles - 1) * at_most(edges, size + 1) + edges + 3 * size - 1 + here;
  return count * parts * ((columns + size - 1) / size) * chain;
}

at_call_cost at_cost_of_call(const atalla_hardware* h, uint16_t op, const at_call* call) {
  const at_view *dst = &call->dst, *src = &call->src[0];
  const uint64_t made = at_elements(dst);
  uint64_t read = made;
  for (unsigned i = 0; i < call->sources; ++i) {
    if (call->present >> i & 1 && at_elements(&call->src[i]) > read) read = at_elements(&call->src[i]);
  }
  at_call_cost cost = {0, 0, 0};
  switch (op) {
    case AT_OP_EW:
      cost.vector = at_vector_cycles(h, made, steps_of_chain(call));
      break;
    case AT_OP_BMM: {
      const uint64_t rows = (uint64_t)dst->dim[dst->rank - 2], columns = (uint64_t)dst->dim[dst->rank - 1];
      const uint64_t depth = (uint64_t)src->dim[src->rank - 1];
      cost.macs = made * depth;
      cost.matrix = rows && columns ? matrix_cycles(h, made / rows / columns, rows, depth, columns) : 0;
      cost.vector = at_vector_cycles(h, made, (at_steps){1, 0, 0, 0});
      break;
    }
    case AT_OP_ATTENTION: {
      const uint64_t heads = (uint64_t)(src->dim[0] * src->dim[1]), rows = (uint64_t)src->dim[2];
      const uint64_t keys = (uint64_t)call->src[1].dim[2], in = (uint64_t)src->dim[3], out = (uint64_t)dst->dim[3];
      cost.macs = heads * rows * keys * (in + out);
      cost.matrix = matrix_cycles(h, heads, rows, in, keys) + matrix_cycles(h, heads, rows, keys, out);
      cost.vector = at_vector_cycles(h, heads * rows * keys, (at_steps){4, 0, 1, 0}) +
                    at_vector_cycles(h, made, (at_steps){1, 1, 0, 0});
      break;
    }
    case AT_OP_DWCONV2D:
    case AT_OP_QDWCONV2D: {
      const int64_t* words = call->words;
      const uint32_t taps = (uint32_t)(words[AT_DWCONV2D_KERNEL_H] * words[AT_DWCONV2D_KERNEL_W]);
      const bool is_int8 = op == AT_OP_QDWCONV2D;
      at_steps steps =
          at_finish_steps(is_int8, !is_int8 && call->present >> 3 & 1, is_int8 ? AT_ACT_NONE : words[AT_DWCONV2D_ACT]);
      steps.simple += steps_of_taps(h, is_int8, taps);
      cost.macs = made * taps;
      cost.vector = at_vector_cycles(h, made, steps);
      break;
    }
    case AT_OP_POOL2D: {
      const uint32_t taps = (uint32_t)(call->words[AT_POOL2D_KERNEL_H] * call->words[AT_POOL2D_KERNEL_W]);
      const at_steps steps = {taps + 1, 0, 0, 0};
      cost.vector = call->words[AT_POOL2D_KIND] == AT_POOL_MAX ? packed_cycles(h, made, dst->dtype, steps)
                                                               : at_vector_cycles(h, made, steps);
      break;
    }
    case AT_OP_SOFTMAX:
      cost.vector = at_vector_cycles(h, made, (at_steps){4, 1, 1, 0});
      break;
    case AT_OP_NORM:
      cost.vector = at_vector_cycles(h, made, (at_steps){8, 1, 0, 0});
      break;
    case AT_OP_RESIZE2D:
    case AT_OP_SAMPLE2D:
      cost.vector = at_vector_cycles(h, made, (at_steps){8, 0, 0, 0});
      break;
    case AT_OP_REDUCE:
      cost.vector =
          at_vector_cycles(h, read, (at_steps){call->words[AT_REDUCE_KIND] == AT_REDUCE_VAR ? 4 : 1, 0, 0, 0});
      break;
    case AT_OP_COPY:
    case AT_OP_FILL:
      cost.vector = packed_cycles(h, read, dst->dtype, (at_steps){1, 0, 0, 0});
      break;
    default:
      cost.vector = at_vector_cycles(h, read, (at_steps){1, 0, 0, 0});
  }
  return cost;
}
