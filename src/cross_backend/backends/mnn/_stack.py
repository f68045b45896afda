"""MNN's libraries ask for an executable stack, which the C library refuses from version 2.41 on."""

from __future__ import annotations

import importlib.util
import os
import re
import struct
from pathlib import Path

from cross_backend.backend import Unavailable
from cross_backend.machine import Machine

_MODULE = "_mnncengine"
_REFUSES = (2, 41)
_ALLOWED = "glibc.rtld.execstack=2"
_PT_GNU_STACK, _EXECUTABLE = 0x6474E551, 1


def refused_stack(machine: Machine) -> Unavailable | None:
    """Return that they cannot be opened, and how they can; None where they can. Nothing is imported."""
    found = importlib.util.find_spec(_MODULE)
    if machine.system != "linux" or found is None or found.origin is None or not wants_stack(Path(found.origin)):
        return None
    library = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    return refusal(library or "", os.environ.get("GLIBC_TUNABLES", ""))


def refusal(library: str, tunables: str) -> Unavailable | None:
    """Return why this C library opens no file that asks for an executable stack; None if it does."""
    version = re.fullmatch(r"glibc (\d+)\.(\d+).*", library)
    if version is None or (int(version[1]), int(version[2])) < _REFUSES or _ALLOWED in tunables.split(":"):
        return None
    return Unavailable(
        f"its package asks for an executable stack, which {library} refuses",
        f"set GLIBC_TUNABLES={_ALLOWED}, which allows it, before the command",
    )


def wants_stack(path: Path) -> bool:
    """Whether a 64-bit little-endian ELF file asks for an executable stack (its program header PT_GNU_STACK)."""
    with path.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            return False
        (start,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        file.seek(start)
        rows = file.read(size * count)
    kinds = [struct.unpack_from("<II", rows, size * number) for number in range(len(rows) // size if size else 0)]
    return any(kind == _PT_GNU_STACK and flags & _EXECUTABLE for kind, flags in kinds)
