"""Samples: raw samples as compact bytes and back, without loss.

Layout (of every version so far): little-endian numbers of one width, byte plane by byte plane (all lowest bytes, then
all second bytes, …), in one zlib stream; its checksum finds damage. The high bytes of durations hardly change, so they
cost almost nothing. Measured on durations of 8 µs to 12 ms on a busy machine: 1.5 to 3.2 bytes and 85 ns a sample;
zlib without the planes takes 1.8 to 3.5 bytes, LZMA saves 5 to 9 % in many times the time.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.measurement import Measurement

if TYPE_CHECKING:
    import numpy as np

TYPECODES = {"u4": "I", "i8": "q", "f8": "d"}
"""Encoding → how ``array.array`` calls it: unsigned, signed, floating; the digit is the width in bytes."""
LEVEL = 6
"""Of zlib; 9 saves less than half a percent."""
MAX_SAMPLES = 1 << 28
"""Of one measurement."""
MAX_ROUNDS = 1 << 24
"""Of one measurement."""


@dataclass(frozen=True)
class Packed:
    """A measurement as one row of the database."""

    metric: str
    unit: str
    launches: tuple[int, ...]
    """As in :class:`Measurement`."""
    count: int
    """Samples in all rounds."""
    lengths: bytes
    """Samples of each round, packed as ``u4``."""
    encoding: str
    """Key of :data:`TYPECODES`."""
    data: bytes
    """All samples in order, packed."""


def pack(measurement: Measurement) -> Packed:
    """Encode a measurement.

    Whole numbers stay whole numbers; those beyond 64 bits with a sign (in ns: 292 years) become floating point, as do
    all samples where one is.
    """
    import numpy as np

    rows = [np.asarray(row) for row in measurement.rounds if len(row)]
    encoding = _encoding(rows)
    flat = np.concatenate([row.astype(f"<{encoding}") for row in rows]) if rows else np.empty(0, f"<{encoding}")
    lengths = np.array([len(row) for row in measurement.rounds], "<u4")
    return Packed(
        measurement.metric,
        measurement.unit,
        measurement.launches,
        len(flat),
        _squeeze(lengths),
        encoding,
        _squeeze(flat),
    )


def unpack(packed: Packed) -> Measurement:
    """Decode a measurement; its rounds are ``array.array`` of whole or floating point numbers.

    Raises:
        ValueError: damaged, or an encoding that this version does not know.
    """
    if packed.encoding not in TYPECODES:
        raise ValueError(f"unknown encoding {packed.encoding!r}")
    if packed.count > MAX_SAMPLES:
        raise ValueError(f"{packed.count} samples")
    lengths = _expand(packed.lengths, "u4", MAX_ROUNDS)
    flat = _expand(packed.data, packed.encoding, packed.count)
    if sum(lengths) != len(flat) or len(flat) != packed.count:
        raise ValueError(f"{len(flat)} samples instead of {packed.count}")
    rounds: list[Sequence[float]] = []
    start = 0
    for length in lengths:
        rounds.append(flat[start : start + length])
        start += length
    return Measurement(packed.metric, packed.unit, tuple(rounds), packed.launches)


def _encoding(rows: Sequence[np.ndarray[Any, Any]]) -> str:
    """Choose the narrowest encoding that holds all samples."""
    if any(row.dtype.kind not in "biu" for row in rows):
        return "f8"
    low = min((int(row.min()) for row in rows), default=0)
    high = max((int(row.max()) for row in rows), default=0)
    if low >= 0 and high < 1 << 32:
        return "u4"
    return "i8" if high < 1 << 63 else "f8"


def _squeeze(flat: np.ndarray[Any, Any]) -> bytes:
    planes = flat.view("u1").reshape(len(flat), flat.itemsize).T
    return zlib.compress(planes.tobytes(), LEVEL)


def _expand(data: bytes, encoding: str, most: int) -> array[Any]:
    """Unpack at most so many numbers: a stream may say more than its file could ever have been given."""
    import numpy as np

    width = int(encoding[1:])
    try:
        stream = zlib.decompressobj()
        planes = np.frombuffer(stream.decompress(data, width * most + 1), np.uint8)
    except zlib.error as error:
        raise ValueError(f"damaged samples ({error})") from error
    if planes.size > width * most or not stream.eof:
        raise ValueError("damaged samples (of another length)")
    if planes.size % width:
        raise ValueError("damaged samples (cut short)")
    numbers = np.ascontiguousarray(planes.reshape(width, -1).T).view(f"<{encoding}").ravel()
    kept: array[Any] = array(TYPECODES[encoding])
    kept.frombytes(numbers.astype(f"={encoding}", copy=False).view("u1").data)
    return kept
