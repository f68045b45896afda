"""Verdicts: what a loader finds wrong with bytes."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Verdict(IntEnum):
    """The first that is wrong, in the order in which loaders look; ``docs/atalla/blob.md`` explains each."""

    text: str
    """What the C library says."""

    def __new__(cls, value: int, text: str = "") -> Self:
        """Keep the text beside the number."""
        made = int.__new__(cls, value)
        made._value_, made.text = value, text
        return made

    SOUND = 0, "sound"
    SIZE = 100, "the size is not the one that the header says"
    MAGIC = 101, "this is no Atalla blob"
    ENDIAN = 102, "written for the other order of bytes"
    VERSION = 103, "a version or a feature that this loader does not know"
    HEADER = 104, "the header is damaged"
    SECTION = 105, "the table of sections is damaged"
    CHECKSUM = 106, "a section is damaged: its checksum is wrong"
    STRINGS = 107, "the strings are damaged"
    TENSOR = 108, "a tensor's description has no meaning"
    BOUNDS = 109, "a tensor reaches out of its memory"
    LISTS = 110, "a list of inputs, outputs, operands or calls is damaged"
    INSTRUCTION = 111, "an instruction is unknown, or has the wrong number of operands"
    ATTRIBUTE = 112, "an instruction's attribute has no meaning"
    OPERANDS = 113, "an instruction does not take these operands"
    WRITE = 114, "an instruction writes what must not be written"
    READ = 115, "something is read before it was written"
    OVERLAP = 116, "two tensors share memory while both are needed"
    SYMBOLS = 117, "symbols are damaged, or are not what the tables were made with"
    HOST = 118, "it calls an operator on the host that only a trusted blob may call"
