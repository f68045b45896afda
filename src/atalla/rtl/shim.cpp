// The matrix unit behind a plain C ABI: drives the clock, feeds tiles, counts the clock's edges.
//
// One library holds one unit of one size and one type: ATALLA_SIZE, ATALLA_IS_BF16, ATALLA_ROWS. A unit serves one
// thread at a time; units do not know each other. Functions return 0, or 1 for sizes that a unit does not take.
#include <cstdint>
#include <cstring>
#include <new>

#include "Vmatrix_unit.h"

#define API extern "C" __attribute__((visibility("default")))

#if ATALLA_IS_BF16
using element = uint16_t;
constexpr element NOTHING = 0x8000;  // -0: times a weight of +0 it is -0, which changes no sum, not even -0
constexpr int64_t BLOCK = 32;        // depth after which even and odd sums are added
#else
using element = uint8_t;
constexpr element NOTHING = 0;
#endif
constexpr int64_t SIZE = ATALLA_SIZE, ROWS = ATALLA_ROWS;

struct atalla_rtl {
  VerilatedContext context;
  Vmatrix_unit unit{&context};
  uint64_t edges = 0;
};

// A product a[m, k] x b[k, n] into sums[m, n]; strides count elements, those of a's and the sums' columns are 1.
struct atalla_rtl_tile {
  size_t struct_size;
  const void* a;
  int64_t a_stride;
  const void* b;
  int64_t b_row_stride, b_column_stride;
  uint32_t* sums;  // int32 or float32
  int64_t sums_stride;
  int64_t m, k, n;         // 1 to ROWS, 1 or more, 1 to SIZE
  int32_t accumulate;      // whether sums begin with those in memory
  uint32_t stalls;         // seed of clocks in which nothing is offered, to try the handshake; 0: none
  uint64_t edges;          // given back: of all
  uint64_t compute_edges;  // given back: from the first weight to the last sum in its accumulator
};

namespace {

// Inputs are set and settled: let the clock rise.
void rise(atalla_rtl* rtl) {
  rtl->unit.clk = 1;
  rtl->unit.eval();
  ++rtl->edges;
}

void settle(atalla_rtl* rtl) {
  rtl->unit.clk = 0;
  rtl->unit.eval();
}

void tick(atalla_rtl* rtl) {
  settle(rtl);
  rise(rtl);
}

void store_sums(atalla_rtl* rtl, const atalla_rtl_tile* tile) {
  Vmatrix_unit& unit = rtl->unit;
  unit.store_valid = 1;
  for (int64_t m = 0; m < tile->m; ++m) {
    unit.port_at = static_cast<uint16_t>(m);
    std::memcpy(&unit.store[0], tile->sums + m * tile->sums_stride, static_cast<size_t>(tile->n) * 4);
    tick(rtl);
  }
  unit.store_valid = 0;
}

void load_sums(atalla_rtl* rtl, const atalla_rtl_tile* tile) {
  Vmatrix_unit& unit = rtl->unit;
  unit.load_valid = 1;
  for (int64_t m = 0; m < tile->m; ++m) {
    unit.port_at = static_cast<uint16_t>(m);
    tick(rtl);
    std::memcpy(tile->sums + m * tile->sums_stride, &unit.load[0], static_cast<size_t>(tile->n) * 4);
  }
  unit.load_valid = 0;
}

void put_weights(Vmatrix_unit& unit, const atalla_rtl_tile* tile, int64_t k) {
  const element* from = static_cast<const element*>(tile->b) + k * tile->b_row_stride;
  for (int64_t c = 0; c < SIZE; ++c) {
    unit.weight[static_cast<size_t>(c)] = k < tile->k && c < tile->n ? from[c * tile->b_column_stride] : element{0};
  }
}

void put_row(Vmatrix_unit& unit, const atalla_rtl_tile* tile, int64_t m, int64_t first) {
  const element* from = static_cast<const element*>(tile->a) + m * tile->a_stride + first;
  const int64_t here = tile->k - first < SIZE ? tile->k - first : SIZE;
  std::memcpy(&unit.row[0], from, static_cast<size_t>(here) * sizeof(element));
  for (int64_t k = here; k < SIZE; ++k) unit.row[static_cast<size_t>(k)] = NOTHING;
  unit.row_at = static_cast<uint16_t>(m);
  unit.row_first = m == 0;
#if ATALLA_IS_BF16
  unit.row_fresh = !tile->accumulate && first < BLOCK;
  unit.row_begin = first % BLOCK == 0;
  unit.row_fold = (first + SIZE) % BLOCK == 0 || first + SIZE >= tile->k;
#else
  unit.row_fresh = !tile->accumulate && first == 0;
#endif
}

// Of a xorshift generator: true in so many of four times; never with a seed of 0.
bool stalls(uint32_t* seed, uint32_t quarters) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed && *seed >> 30 < quarters;
}

void multiply(atalla_rtl* rtl, const atalla_rtl_tile* tile) {
  Vmatrix_unit& unit = rtl->unit;
  const int64_t depth = (tile->k + SIZE - 1) / SIZE * SIZE;
  int64_t weight = 0, first = 0, m = 0;
  uint32_t seed = tile->stalls * 2654435761u;  // spread over all bits
  for (;;) {
    unit.weight_valid = weight < depth && !stalls(&seed, 1);
    if (unit.weight_valid) put_weights(unit, tile, weight);
    unit.row_valid = first < depth && !(first / SIZE % 2 == 0 && stalls(&seed, 2));
    if (unit.row_valid) put_row(unit, tile, m, first);
    settle(rtl);
    if (first >= depth && unit.idle) return;
    const bool weight_is_taken = unit.weight_valid && unit.weight_ready,
               row_is_taken = unit.row_valid && unit.row_ready;
    rise(rtl);
    weight += weight_is_taken;
    m += row_is_taken;
    if (m == tile->m) {
      m = 0;
      first += SIZE;
    }
  }
}

int run(atalla_rtl* rtl, atalla_rtl_tile* tile) {
  if (tile->struct_size != sizeof *tile || tile->m < 1 || tile->m > ROWS || tile->k < 1 || tile->n < 1 ||
      tile->n > SIZE) {
    return 1;
  }
  const uint64_t began = rtl->edges;
  if (tile->accumulate) store_sums(rtl, tile);
  const uint64_t stored = rtl->edges;
  multiply(rtl, tile);
  tile->compute_edges = rtl->edges - stored;
  load_sums(rtl, tile);
  tile->edges = rtl->edges - began;
  return 0;
}

}  // namespace

API uint32_t atalla_rtl_version() { return 1; }

API atalla_rtl* atalla_rtl_new() {
  atalla_rtl* rtl = new (std::nothrow) atalla_rtl;
  if (!rtl) return nullptr;
  rtl->unit.reset = 1;
  tick(rtl);
  rtl->unit.reset = 0;
  return rtl;
}

API void atalla_rtl_free(atalla_rtl* rtl) { delete rtl; }

// Clock edges since the unit was made, its reset among them.
API uint64_t atalla_rtl_cycles(const atalla_rtl* rtl) { return rtl->edges; }

#if ATALLA_IS_BF16
API int atalla_rtl_matmul_bf16(atalla_rtl* rtl, atalla_rtl_tile* tile) { return run(rtl, tile); }
#else
API int atalla_rtl_matmul_int8(atalla_rtl* rtl, atalla_rtl_tile* tile) { return run(rtl, tile); }
#endif
