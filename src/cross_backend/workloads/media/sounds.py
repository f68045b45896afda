"""Sounds: WAV files by their content, bounded, made one channel of float64; and other rates by windowed sinc."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UsageError
from cross_backend.workloads.media.base import called, check_length

if TYPE_CHECKING:
    import numpy as np

RATES = range(4000, 200_001)
MAX_CHANNELS = 8
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_CROSSINGS = 16
"""Zeros of the sinc on each side: the pass band ends a few percent below half the lower rate."""
_BLOCK = 1 << 13
"""Samples that are worked out at once."""


def read_wav(data: bytes, name: str | None = None) -> tuple[np.ndarray[Any, Any], int]:
    """Return the mean of all channels, -1 to 1, and the samples a second.

    Raises:
        UsageError: no WAV file, damaged, packed, empty, or at an unheard-of rate.
    """
    import numpy as np

    check_length(data, name)
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise UsageError(f"{called(name)} is no WAV file; other sounds are not read.")
    chunks = _chunks(data)
    form, samples = chunks.get(b"fmt ", b""), chunks.get(b"data", b"")
    if len(form) < 16:
        raise UsageError(f"{called(name)} is a damaged WAV file: it does not say how it is made.")
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if code == _EXTENSIBLE and len(form) >= 26:
        (code,) = struct.unpack_from("<H", form, 24)
    if (code, bits) not in {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32), (_FLOAT, 64)}:
        raise UsageError(f"{called(name)} is a WAV file of format {code} with {bits} bits, which is not read.")
    if rate not in RATES or not 1 <= channels <= MAX_CHANNELS:
        raise UsageError(f"{called(name)} has {channels} channel(s) of {rate} samples a second, which is not read.")
    width = bits // 8
    count = len(samples) // (width * channels)
    if not count:
        raise UsageError(f"{called(name)} holds no sound.")
    raw = np.frombuffer(samples, np.uint8, count * channels * width)
    if code == _FLOAT:
        values = raw.view(f"<f{width}").astype(np.float64)
        if not np.isfinite(values).all():
            raise UsageError(f"{called(name)} holds numbers that are not finite.")
        values = values.clip(-1, 1)
    elif bits == 8:
        values = (raw.astype(np.float64) - 128) / 128
    else:
        wide = np.zeros((count * channels, 4), np.uint8)  # the upper bytes of 32 bits, so that the sign is right
        wide[:, 4 - width :] = raw.reshape(-1, width)
        values = wide.view("<i4")[:, 0] / 2.0**31
    return values.reshape(count, channels).mean(1), rate


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """Return the first chunk of each kind; one that says to be longer than the file ends with it."""
    found: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        kind, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        found.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size + size % 2
    return found


def resampled(samples: np.ndarray[Any, Any], before: int, after: int) -> np.ndarray[Any, Any]:
    """Return a sound at another rate: each sample is a sum of its neighbours, weighed by a Hann-windowed sinc."""
    import numpy as np

    if before == after:
        return samples
    cutoff = min(1.0, after / before) * 0.97  # of half the first rate; the window's own slope lies above
    reach = math.ceil(_CROSSINGS / cutoff)
    count = max(1, len(samples) * after // before)
    padded = np.pad(samples, reach + 1)
    offsets = np.arange(-reach, reach + 1)
    step = math.gcd(before, after)
    distance = offsets - np.arange(0, after, step)[:, None] / after  # one row for each place between two samples
    window = np.cos(np.pi / 2 * (distance / (reach + 1))) ** 2
    weights = cutoff * np.sinc(cutoff * distance) * window
    found = np.empty(count)
    for start in range(0, count, _BLOCK):
        whole, between = np.divmod(np.arange(start, min(start + _BLOCK, count), dtype=np.int64) * before, after)
        near = padded[whole[:, None] + offsets + reach + 1]
        found[start : start + len(whole)] = np.einsum("ij,ij->i", near, weights[between // step])
    return found
