// Verdicts in words.
#include "check.h"

const char* at_verdict(int verdict) {
  static const char* const words[] = {
      "the size is not the one that the header says",
      "this is no Atalla blob",
      "written for the other order of bytes",
      "a version or a feature that this loader does not know",
      "the header is damaged",
      "the table of sections is damaged",
      "a section is damaged: its checksum is wrong",
      "the strings are damaged",
      "a tensor's description has no meaning",
      "a tensor reaches out of its memory",
      "a list of inputs, outputs, operands or calls is damaged",
      "an instruction is unknown, or has the wrong number of operands",
      "an instruction's attribute has no meaning",
      "an instruction does not take these operands",
      "an instruction writes what must not be written",
      "something is read before it was written",
      "two tensors share memory while both are needed",
      "symbols are damaged, or are not what the tables were made with",
      "it calls an operator on the host that only a trusted blob may call",
  };
  const int number = verdict - AT_BAD_SIZE;
  if (verdict == ATALLA_OUT_OF_MEMORY) return "out of memory";
  return number >= 0 && number < (int)(sizeof words / sizeof *words) ? words[number] : "not sound";
}
