// Changes a blob the way a blob is made: one section at a time, with offsets and checksums made right again.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crc.h"
#include "internal.h"

enum { HEAD = 64, ROW = 32, MOST = 16 };

typedef struct {
  uint8_t name[4];
  uint32_t required, align;
  uint8_t* data;
  size_t size;
} piece;

typedef struct {
  uint8_t head[HEAD];
  piece pieces[MOST];
  uint32_t count;
} whole;

static inline void put32(uint8_t* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (uint8_t)(value >> 8 * i);
}

static inline void put64(uint8_t* at, uint64_t value) {
  put32(at, (uint32_t)value);
  put32(at + 4, (uint32_t)(value >> 32));
}

static inline void drop(whole* w) {
  for (uint32_t i = 0; i < w->count; ++i) free(w->pieces[i].data);
}

// Takes a blob apart; false where its table leads nowhere.
static inline bool take_apart(const uint8_t* data, size_t size, whole* w) {
  memset(w, 0, sizeof *w);
  if (size < HEAD) return false;
  memcpy(w->head, data, HEAD);
  const uint32_t count = at_u32(data + 16);
  if (count > MOST || HEAD + (size_t)count * ROW > size) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* row = data + HEAD + ROW * (size_t)i;
    const uint64_t at = at_u64(row + 8), length = at_u64(row + 16);
    if (at > size || length > size - at) {
      drop(w);
      return false;
    }
    piece* p = &w->pieces[w->count++];
    memcpy(p->name, row, 4);
    p->required = at_u32(row + 4);
    p->align = at_u32(row + 24);
    p->size = (size_t)length;
    p->data = malloc(p->size + 4096);
    memcpy(p->data, data + at, p->size);
  }
  return true;
}

// Makes the checksums right, as far as the table says where sections are.
static inline void sign(uint8_t* data, size_t size) {
  if (size < HEAD) return;
  const uint32_t count = at_u32(data + 16);
  const size_t end = HEAD + (size_t)count * ROW;
  if (count > 64 || end > size) return;
  static at_crc table;
  if (!table.row[0][1]) at_crc_init(&table);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t* row = data + HEAD + ROW * (size_t)i;
    const uint64_t at = at_u64(row + 8), length = at_u64(row + 16);
    if (at <= size && length <= size - at) put32(row + 28, at_crc_of(&table, 0, data + at, (size_t)length));
  }
  put32(data + 48, 0);
  put32(data + 48, at_crc_of(&table, at_crc_of(&table, 0, data, HEAD), data + HEAD, end - HEAD));
}

// Puts a blob together; 0 where there is no room.
static inline size_t put_together(const whole* w, uint8_t* out, size_t room) {
  size_t at = HEAD + (size_t)w->count * ROW;
  if (at > room) return 0;
  memset(out, 0, at);
  memcpy(out, w->head, HEAD);
  put32(out + 16, w->count);
  for (uint32_t i = 0; i < w->count; ++i) {
    const piece* p = &w->pieces[i];
    const size_t align = p->align == 4096 ? 4096 : 8, start = (at + align - 1) / align * align;
    if (start + p->size > room) return 0;
    memset(out + at, 0, start - at);
    memcpy(out + start, p->data, p->size);
    uint8_t* row = out + HEAD + ROW * (size_t)i;
    memcpy(row, p->name, 4);
    put32(row + 4, p->required);
    put64(row + 8, start);
    put64(row + 16, p->size);
    put32(row + 24, p->align);
    at = start + p->size;
  }
  put64(out + 24, at);
  sign(out, at);
  return at;
}

static inline uint64_t next(uint64_t* chance) {
  *chance ^= *chance << 13;
  *chance ^= *chance >> 7;
  *chance ^= *chance << 17;
  return *chance;
}

// Bytes of one record of a section.
static inline size_t record(const uint8_t* name) {
  static const char names[5][5] = {"TENS", "INSN", "ATTR", "IOTB", "HOST"};
  static const size_t sizes[] = {168, 32, 8, 16, 16};
  for (int i = 0; i < 5; ++i) {
    if (memcmp(name, names[i], 4) == 0) return sizes[i];
  }
  return 4;
}

// Changes one number of a piece: by a little, to something telling, or to the same number of another record.
static inline void change_number(piece* p, uint64_t* chance) {
  static const uint64_t telling[] = {0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     7,
                                     8,
                                     16,
                                     32,
                                     63,
                                     64,
                                     65,
                                     127,
                                     128,
                                     255,
                                     1000,
                                     4095,
                                     4096,
                                     65535,
                                     1u << 20,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     (uint64_t)1 << 40,
                                     ((uint64_t)1 << 40) + 1,
                                     INT64_MAX,
                                     (uint64_t)1 << 63,
                                     UINT64_MAX,
                                     0x7ff8000000000000,
                                     0x3ff0000000000000};
  const size_t form = record(p->name),
               width = (size_t)1 << (form == 168 || form == 8 ? next(chance) % 4 : next(chance) % 3);
  if (p->size < width) return;
  const size_t place = next(chance) % (p->size / width) * width;
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= (uint64_t)p->data[place + i] << 8 * i;
  switch (next(chance) % 6) {
    case 0:
      value += next(chance) % 9 - 4;
      break;
    case 1:
      value ^= (uint64_t)1 << next(chance) % (8 * width);
      break;
    case 2:
      value = next(chance) % 20;
      break;
    case 3:
      value = next(chance) % 2 ? value * 2 : 0 - value;
      break;
    case 4:
      value = telling[next(chance) % (sizeof telling / sizeof *telling)];
      break;
    default:
      if (p->size >= 2 * form) {
        const size_t other = next(chance) % (p->size / form) * form + place % form;
        if (other + width <= p->size) memmove(p->data + place, p->data + other, width);
      }
      return;
  }
  for (size_t i = 0; i < width; ++i) p->data[place + i] = (uint8_t)(value >> 8 * i);
}

// Changes a letter of a text, or puts a piece of it elsewhere: names of operators, and what they are called with.
static inline void change_text(piece* p, uint64_t* chance) {
  const size_t head = p->size < 4 ? p->size : 4 + 4 * (size_t)at_u32(p->data);
  if (head >= p->size) return;
  const size_t room = p->size - head, to = next(chance) % room, from = next(chance) % room;
  const size_t most = room - (to > from ? to : from), length = 1 + next(chance) % 8;
  if (next(chance) % 2) {
    p->data[head + to] = (uint8_t)(' ' + next(chance) % 95);
  } else {
    memmove(p->data + head + to, p->data + head + from, length < most ? length : most);
  }
}

// Copies, doubles, swaps or removes a record.
static inline void change_records(piece* p, uint64_t* chance) {
  const size_t form = record(p->name), count = p->size / form;
  if (!count) return;
  uint8_t *one = p->data + next(chance) % count * form, *other = p->data + next(chance) % count * form, keep[168];
  switch (next(chance) % 4) {
    case 0:
      memmove(one, other, form);
      break;
    case 1:
      memcpy(keep, one, form);
      memmove(one, other, form);
      memcpy(other, keep, form);
      break;
    case 2:  // there is room for some more
      memmove(one + form, one, p->size - (size_t)(one - p->data));
      p->size += form;
      break;
    default:
      memmove(one, one + form, p->size - (size_t)(one - p->data) - form);
      p->size -= form;
  }
}

// Gives the size of a changed blob; 0 where the bytes are none that can be taken apart, or there is no room.
static inline size_t mutate(uint8_t* data, size_t size, size_t room, uint64_t chance) {
  static const char often[7][5] = {"TENS", "INSN", "ATTR", "OPER", "IOTB", "HOST", "STRT"};
  whole w;
  chance = chance * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
  for (int i = 0; i < 4; ++i) next(&chance);
  if (!take_apart(data, size, &w)) return 0;
  if (!w.count) return 0;
  const unsigned times = 1u << next(&chance) % 3;
  for (unsigned n = 0; n < times; ++n) {
    piece* p = &w.pieces[next(&chance) % w.count];
    const char* wanted = often[next(&chance) % 7];
    for (uint32_t i = 0; i < w.count && next(&chance) % 16; ++i) {
      if (memcmp(w.pieces[i].name, wanted, 4) == 0) p = &w.pieces[i];
    }
    const uint64_t kind = next(&chance) % 32;
    if (kind == 0) w.head[next(&chance) % HEAD] ^= (uint8_t)(1u << next(&chance) % 8);
    if (kind == 1) p->required = (uint32_t)(next(&chance) % 3);
    if (kind == 2) p->align = (uint32_t)1 << next(&chance) % 14;
    if (kind == 3) put64(w.head + 32 + 8 * (next(&chance) % 2), next(&chance) % 100000);
    if (kind >= 4 && kind < 8) change_records(p, &chance);
    const bool is_text = memcmp(p->name, "STRT", 4) == 0;
    if (kind >= 8 && is_text && next(&chance) % 4) {
      change_text(p, &chance);
    } else if (kind >= 8) {
      change_number(p, &chance);
    }
  }
  const size_t made = put_together(&w, data, room);
  drop(&w);
  return made;
}
