// Whether a call in tiles gives the bits of the whole: where its views lie, and from exact copies in poisoned memory.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/tiles.h"

typedef struct {
  const at_kernels* kernels;
  at_pool* pool;
  size_t calls, tiles, bound;  // so far; bound: tiles at least, by the bytes of the whole
  uint64_t seed;
  size_t least;              // bytes of the smallest room for all calls
  size_t refused, in_place;  // rooms that were too small, tiles with a view that stays
} checking;

static inline void stop(const checking* c, const char* text, uint16_t op, const at_room* room, size_t tile) {
  fprintf(stderr, "operation %u, seed %llu, call %zu, room %zu, tile %zu: %s\n", op, (unsigned long long)c->seed,
          c->calls, room->bytes, tile, text);
  abort();
}

static inline const at_view* viewed(const at_call* call, unsigned i) {
  return i == AT_SOURCES ? &call->dst : &call->src[i];
}

static inline int is_there(const at_call* call, unsigned i) { return i == AT_SOURCES || call->present >> i & 1; }

// Copies element by element between two views of the same shape.
static inline void copy_view(const at_view* to, const at_view* from) {
  const size_t size = at_size(from->dtype), count = at_elements(from);
  for (size_t e = 0; e < count; ++e) {
    size_t rest = e;
    int64_t a = 0, b = 0;
    for (unsigned d = from->rank; d-- > 0;) {
      const int64_t index = (int64_t)(rest % (size_t)from->dim[d]);
      rest /= (size_t)from->dim[d];
      a += index * to->stride[d];
      b += index * from->stride[d];
    }
    memcpy(to->data + a * (int64_t)size, from->data + b * (int64_t)size, size);
  }
}

// Counts the elements of a view in a map of the bytes from `base` on; each must be there for the first time.
static inline int count_elements(const at_view* view, const char* base, uint8_t* map) {
  const size_t size = at_size(view->dtype), count = at_elements(view);
  for (size_t e = 0; e < count; ++e) {
    size_t rest = e;
    int64_t a = 0;
    for (unsigned d = view->rank; d-- > 0;) {
      a += (int64_t)(rest % (size_t)view->dim[d]) * view->stride[d];
      rest /= (size_t)view->dim[d];
    }
    if (map[view->data + a * (int64_t)size - base]++) return 0;
  }
  return 1;
}

static inline int run_kernel(const checking* c, uint16_t op, at_call* call) {
  const at_kernels* having = at_kernels_with(c->kernels, op);
  const at_need need = having->scratch[op];
  call->pool = c->pool;
  call->scratch_bytes = (need ? need(call) / AT_LINE + 1 : 1) * AT_LINE;
  call->scratch = aligned_alloc(AT_LINE, call->scratch_bytes);
  const int status = having->run[op](call);
  free(call->scratch);
  return status;
}

// A copy with nothing behind it; NaN, or −1, where it is not written.
static inline char* poisoned(size_t bytes) { return memset(malloc(bytes ? bytes : 1), 0xff, bytes ? bytes : 1); }

// Runs a tile on copies of its views; where only `filters` are copied, of source 1.
static inline int run_copied(const checking* c, uint16_t op, at_call* tile, uint32_t in_place, int filters) {
  char* copies[AT_VIEWS] = {NULL};
  const at_view dst = tile->dst;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    if (!is_there(tile, i) || in_place >> i & 1 || (filters && i != 1)) continue;
    at_view* view = (at_view*)(uintptr_t)viewed(tile, i);
    at_view dense;
    copies[i] = poisoned(at_dense(view, &dense));
    dense.data = copies[i];
    if (i != AT_SOURCES && at_elements(view)) copy_view(&dense, view);
    *view = dense;
  }
  const int status = run_kernel(c, op, tile);
  if (copies[AT_SOURCES]) copy_view(&dst, &tile->dst);
  for (unsigned i = 0; i < AT_VIEWS; ++i) free(copies[i]);
  return status;
}

static inline size_t bytes_of(const at_call* tile, uint32_t in_place, size_t align) {
  size_t total = 0;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    at_view dense;
    if (!is_there(tile, i) || in_place >> i & 1) continue;
    total += (at_dense(viewed(tile, i), &dense) + align - 1) / align * align;
  }
  return total;
}

typedef struct {
  char* base;  // of dst's memory
  size_t bytes;
  char *before, *wanted;  // what it holds before a run, and after it
  int status;
} outcome;

enum { MANY_TILES = 4000, OFTEN = 16 };

static inline void check_room(checking* c, uint16_t op, const at_call* call, const at_room* room,
                              const outcome* whole) {
  at_tiling t;
  if (at_cut(op, call, room, &t) != ATALLA_OK) stop(c, "does not fit", op, room, 0);
  if (t.count > MANY_TILES && c->calls % OFTEN) return;  // takes long
  uint8_t* map = calloc(whole->bytes + 1, 1);
  size_t covered = 0;
  c->tiles += t.count;
  at_room none = {SIZE_MAX, 1};
  at_tiling one;
  if (at_cut(op, call, &none, &one) != ATALLA_OK || one.count > 1) stop(c, "no tile for an endless room", op, room, 0);
  if (one.count) {
    at_call tile;
    int64_t words[AT_TILE_WORDS];
    uint32_t in_place;
    at_tile(&one, 0, &tile, words, &in_place);
    c->bound += (bytes_of(&tile, in_place, 1) + room->bytes - 1) / (room->bytes ? room->bytes : 1);
  }
  for (int copied = 0; copied < 2; ++copied) {
    int status = ATALLA_OK;
    memcpy(whole->base, whole->before, whole->bytes);
    for (size_t i = 0; i < t.count && status == ATALLA_OK; ++i) {
      at_call tile;
      int64_t words[AT_TILE_WORDS];
      memset(words, 0xff, sizeof words);
      uint32_t in_place;
      at_tile(&t, i, &tile, words, &in_place);
      if (bytes_of(&tile, in_place, room->align) > room->bytes) stop(c, "takes more than there is", op, room, i);
      if (!copied) {
        c->in_place += in_place != 0 && op != AT_OP_GATHER && op != AT_OP_SCATTER && op != AT_OP_SAMPLE2D;
        covered += at_elements(&tile.dst);
        const int again = op == AT_OP_SCATTER && in_place >> AT_SOURCES;
        if (!again && !count_elements(&tile.dst, whole->base, map)) stop(c, "covers twice", op, room, i);
        if (again && i == 0) covered = at_elements(&call->dst);
        if (again && i > 0) covered -= at_elements(&tile.dst);
      }
      const int filters = op == AT_OP_DWCONV2D || op == AT_OP_QDWCONV2D;
      if (copied || filters) {
        status = run_copied(c, op, &tile, in_place, !copied);
      } else {
        status = run_kernel(c, op, &tile);
      }
    }
    if (!copied && status == ATALLA_OK && covered != at_elements(&call->dst)) stop(c, "does not cover", op, room, 0);
    if (status != whole->status) stop(c, "gives another status", op, room, 0);
    if (status == ATALLA_OK && memcmp(whole->base, whole->wanted, whole->bytes) != 0) {
      size_t at = 0;
      while (whole->base[at] == whole->wanted[at]) ++at;
      fprintf(stderr, "byte %zu of %zu: %02x, not %02x\n", at, whole->bytes, (unsigned char)whole->base[at],
              (unsigned char)whole->wanted[at]);
      stop(c, copied ? "copies give other bits" : "parts give other bits", op, room, 0);
    }
  }
  free(map);
}

// In rooms from the smallest to one that holds all. `base` and `bytes` are the memory of dst.
static inline void check_call(checking* c, uint16_t op, const at_call* call, char* base, size_t bytes, size_t align) {
  outcome whole = {.base = base, .bytes = bytes, .before = malloc(bytes + 1), .wanted = malloc(bytes + 1)};
  memcpy(whole.before, base, bytes);
  at_call copy = *call;
  whole.status = at_elements(&call->dst) ? run_kernel(c, op, &copy) : ATALLA_OK;
  memcpy(whole.wanted, base, bytes);
  at_tiling t;
  at_room room = {0, align};
  const int status = at_cut(op, call, &room, &t);
  const size_t least = t.least;
  if (least > c->least) c->least = least;
  if (status != (least ? ATALLA_TOO_SMALL : ATALLA_OK)) stop(c, "says another least", op, &room, 0);
  if (least) {
    room.bytes = least - 1;
    if (at_cut(op, call, &room, &t) != ATALLA_TOO_SMALL || t.least != least) stop(c, "fits into less", op, &room, 0);
    ++c->refused;
  }
  size_t most = 0;
  for (unsigned i = 0; i < AT_VIEWS; ++i) {
    if (is_there(call, i)) most += at_elements(viewed(call, i)) * at_size(viewed(call, i)->dtype) + align;
  }
  size_t before = 0;
  for (room.bytes = least;; room.bytes += room.bytes * (1 + c->calls % 3) + align) {
    check_room(c, op, call, &room, &whole);
    if (at_cut(op, call, &room, &t) != ATALLA_OK || t.least != least) stop(c, "says another least", op, &room, 0);
    const int may_move_in = op == AT_OP_GATHER;  // of its room a table takes some
    if (before && t.count > before && !may_move_in) stop(c, "more tiles in a larger room", op, &room, t.count);
    before = t.count;
    if (room.bytes > most) break;
  }
  ++c->calls;
  free(whole.before);
  free(whole.wanted);
}
