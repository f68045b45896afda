// Verdicts in words.
#include "check.h"

const char* at_verdict(int verdict) {
  static const char* const words[] = AT_VERDICT_TEXTS;
  const int number = verdict - AT_BAD_SIZE;
  if (verdict == ATALLA_OUT_OF_MEMORY) return "out of memory";
  return number >= 0 && number < (int)(sizeof words / sizeof *words) ? words[number] : "not sound";
}
