// The strict loader's first half: header, table of sections, strings.
#include <string.h>

#include "crc.h"
#include "load.h"

int at_load_header(loader* l) {
  const uint8_t* b = l->bytes;
  if (l->size < AT_HEADER_BYTES) return AT_BAD_SIZE;
  if (memcmp(b, AT_MAGIC, sizeof AT_MAGIC - 1) != 0) return AT_BAD_MAGIC;
  if (at_u32(b + AT_HEADER_AT_ENDIAN) != AT_ENDIAN) return AT_BAD_ENDIAN;
  if (at_u16(b + AT_HEADER_AT_MAJOR) != AT_MAJOR || at_u32(b + AT_HEADER_AT_FEATURES) != 0) return AT_BAD_VERSION;
  l->sections = at_u32(b + AT_HEADER_AT_SECTIONS);
  if (at_u64(b + AT_HEADER_AT_BYTES) != l->size) return AT_BAD_SIZE;
  if (l->sections > AT_MOST_SECTIONS || AT_HEADER_BYTES + (uint64_t)AT_SECTION_BYTES * l->sections > l->size)
    return AT_BAD_HEADER;
  at_crc table;
  at_crc_init(&table);
  uint8_t head[AT_HEADER_BYTES];
  memcpy(head, b, AT_HEADER_BYTES);
  memset(head + AT_HEADER_AT_CRC, 0, 4);
  const uint32_t crc = at_crc_of(&table, at_crc_of(&table, 0, head, AT_HEADER_BYTES), b + AT_HEADER_BYTES,
                                 AT_SECTION_BYTES * (size_t)l->sections);
  if (crc != at_u32(b + AT_HEADER_AT_CRC)) return AT_BAD_HEADER;
  for (int i = AT_HEADER_AT_ZEROS; i < AT_HEADER_BYTES; ++i) {
    if (b[i]) return AT_BAD_HEADER;
  }
  l->blob->arena_bytes = at_u64(b + AT_HEADER_AT_ARENA);
  l->blob->state_bytes = at_u64(b + AT_HEADER_AT_STATE);
  if (l->blob->arena_bytes > AT_MOST_BYTES || l->blob->state_bytes > AT_MOST_BYTES) return AT_BAD_HEADER;
  return 0;
}

static section* section_of(loader* l, const uint8_t* name) {
  static const char names[AT_KNOWN_SECTIONS][5] = AT_SECTION_NAMES;
  for (int i = 0; i < AT_KNOWN_SECTIONS; ++i) {
    if (memcmp(name, names[i], 4) == 0) return &l->known[i];
  }
  return NULL;
}

// Sections follow each other in the order of the table, so that none overlaps another.
int at_load_sections(loader* l) {
  uint64_t end = AT_HEADER_BYTES + (uint64_t)AT_SECTION_BYTES * l->sections;
  for (uint32_t i = 0; i < l->sections; ++i) {
    const uint8_t* row = l->bytes + AT_HEADER_BYTES + AT_SECTION_BYTES * (size_t)i;
    const uint32_t required = at_u32(row + AT_SECTION_AT_REQUIRED), align = at_u32(row + AT_SECTION_AT_ALIGN);
    const uint64_t at = at_u64(row + AT_SECTION_AT_OFFSET), size = at_u64(row + AT_SECTION_AT_BYTES);
    section* place = section_of(l, row);
    if (required > 1 || (!place && required)) return AT_BAD_SECTION;
    if (align != 8 && align != AT_PAGE) return AT_BAD_SECTION;
    if (place == &l->cnst && align != AT_PAGE) return AT_BAD_SECTION;
    if (at % align || at < end || at > l->size || size > l->size - at) return AT_BAD_SECTION;
    for (uint64_t k = end; k < at; ++k) {
      if (l->bytes[k]) return AT_BAD_SECTION;
    }
    if (place && place->at) return AT_BAD_SECTION;
    if (place) *place = (section){l->bytes + at, size};
    end = at + size;
  }
  for (int i = 0; i < AT_REQUIRED_SECTIONS; ++i) {
    if (!l->known[i].at) return AT_BAD_SECTION;
  }
  if (end != l->size) return AT_BAD_SECTION;
  at_crc table;
  at_crc_init(&table);
  for (uint32_t i = 0; i < l->sections; ++i) {
    const uint8_t* row = l->bytes + AT_HEADER_BYTES + AT_SECTION_BYTES * (size_t)i;
    if (section_of(l, row) == &l->cnst) {  // looked at when it is asked for: a file that is mapped stays unread
      l->blob->constant_crc = at_u32(row + AT_SECTION_AT_CRC);
      continue;
    }
    const uint8_t* at = l->bytes + at_u64(row + AT_SECTION_AT_OFFSET);
    const size_t size = (size_t)at_u64(row + AT_SECTION_AT_BYTES);
    if (at_crc_of(&table, 0, at, size) != at_u32(row + AT_SECTION_AT_CRC)) return AT_BAD_CHECKSUM;
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

int at_load_strings(loader* l) {
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

at_text at_string(const atalla_blob* blob, uint32_t number) {
  const uint32_t begin = number ? at_u32(blob->strings + 4 * (size_t)number) : 0;
  const uint32_t end = at_u32(blob->strings + 4 + 4 * (size_t)number);
  return (at_text){(const char*)blob->strings + 4 + 4 * (size_t)blob->string_count + begin, end - begin};
}
