"""Verify, calls of the host: their operators are among those that any blob may call."""

from __future__ import annotations

import struct

from atalla.blob.verify import Parts
from atalla.errors import BlobError
from atalla.hosted import foreign
from atalla.isa import Verdict
from atalla.plain import plain


def check_calls(parts: Parts) -> None:
    """Look for the operators that a sound blob calls on the host among those that any blob may call.

    Raises:
        BlobError: one is not there.
    """
    names = foreign(_string(parts, name) for name, *_ in parts.calls)
    if names:
        told = plain(names[0][:200]) + (f" and {len(names) - 1} others" if len(names) > 1 else "")
        raise BlobError(Verdict.HOST, f"it calls {told} on the host, which only a blob that you trust may (trust=True)")


def _string(parts: Parts, number: int) -> str:
    data, head = parts.sections[b"STRT"], 4 + 4 * parts.strings
    begin = struct.unpack_from("<I", data, 4 * number)[0] if number else 0
    (end,) = struct.unpack_from("<I", data, 4 + 4 * number)
    return str(data[head + begin : head + end], "utf-8")
