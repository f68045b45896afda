// Calls of the host: the operators that they may name, written by "python -m atalla.hosted" in the order of their
// bytes.
#include <stdlib.h>
#include <string.h>

#include "load.h"

static const char* const hosted[] = {
#include "hosted.inc"
};

static int by_bytes(const void* key, const void* row) {
  const at_text* text = key;
  const char* name = *(const char* const*)row;
  const size_t size = strlen(name), least = text->size < size ? text->size : size;
  const int found = memcmp(text->at, name, least);
  return found ? found : text->size < size ? -1 : text->size > size;
}

int at_load_calls(loader* l) {
  const atalla_blob* blob = l->blob;
  for (uint32_t i = 0; i < blob->call_count && !l->is_trusted; ++i) {
    const at_text name = at_string(blob, at_u32(blob->calls + AT_CALL_BYTES * (size_t)i + AT_CALL_AT_NAME));
    if (!bsearch(&name, hosted, sizeof hosted / sizeof *hosted, sizeof *hosted, by_bytes)) return AT_BAD_HOST;
  }
  return 0;
}
