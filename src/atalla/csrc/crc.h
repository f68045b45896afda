// CRC-32 as zlib has it (polynomial 0xEDB88320), eight bytes at a time by tables that are made once for each check.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint32_t row[8][256];
} at_crc;

static inline void at_crc_init(at_crc* table) {
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
    table->row[0][i] = value;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (int k = 1; k < 8; ++k) {
      const uint32_t before = table->row[k - 1][i];
      table->row[k][i] = before >> 8 ^ table->row[0][before & 255];
    }
  }
}

static inline uint32_t at_crc_of(const at_crc* table, uint32_t crc, const uint8_t* at, size_t size) {
  crc = ~crc;
  for (; size >= 8; size -= 8, at += 8) {
    const uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
    crc = table->row[7][low & 255] ^ table->row[6][low >> 8 & 255] ^ table->row[5][low >> 16 & 255] ^
          table->row[4][low >> 24] ^ table->row[3][at[4]] ^ table->row[2][at[5]] ^ table->row[1][at[6]] ^
          table->row[0][at[7]];
  }
  for (; size; --size, ++at) crc = crc >> 8 ^ table->row[0][(crc ^ *at) & 255];
  return ~crc;
}
