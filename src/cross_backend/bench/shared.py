"""Shared: tensors that one process hands to another in a file that both have mapped, without packing or reading it."""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import RunError
from cross_backend.tensors import BFLOAT16, dtype_of, kind_of, to_numpy

if TYPE_CHECKING:
    import numpy as np

ALIGNED_BYTES = 64
"""Each tensor begins at a multiple of this."""
_ROOM_BYTES = 1 << 16
"""Of the smallest file."""


@dataclass(frozen=True)
class Span:
    """Where one tensor lies in the file."""

    dtype: str
    """In NumPy's spelling, with the order of bytes: ``<f4``; or ``bfloat16``."""
    shape: tuple[int, ...]
    at: int
    """First byte."""


@dataclass(frozen=True)
class Handed:
    """Tensors that lie in a file; they are there until the next ones are written."""

    file: Path
    spans: tuple[Span, ...]


class Writer:
    """Hands tensors out, in a file that is only replaced where it is too short."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._file, self._count = folder, name, folder / name, 0
        self._map: mmap.mmap | None = None

    def hand(self, tensors: Sequence[Any]) -> Handed:
        """Write tensors over the last ones.

        Raises:
            RunError: the disk is full.
        """
        import numpy as np

        arrays = [to_numpy(tensor) for tensor in tensors]
        spans, end = [], 0
        for one in arrays:
            spans.append(Span(BFLOAT16 if one.dtype.name == BFLOAT16 else one.dtype.str, one.shape, end))
            end = -(-(end + one.nbytes) // ALIGNED_BYTES) * ALIGNED_BYTES
        if self._map is None or end > len(self._map):
            self._map = self._longer(end)
        for one, span in zip(arrays, spans, strict=True):
            np.frombuffer(self._map, one.dtype, one.size, span.at).reshape(one.shape)[...] = one
        return Handed(self._file, tuple(spans))

    def _longer(self, least: int) -> mmap.mmap:
        """Begin another file; the pages are written at once, as a full disk would otherwise end the process later."""
        self._map = None
        with contextlib.suppress(OSError):  # where the other side still has it mapped and the system minds
            self._file.unlink()
        self._count += 1
        self._file = self._folder / f"{self._name}-{self._count}"
        size = max(_ROOM_BYTES, 1 << (least - 1).bit_length() if least else 0)
        try:
            with self._file.open("w+b") as file:
                file.write(bytes(size))
                file.flush()
                return mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise RunError(f"there is no room for its tensors ({error.strerror}).") from error


class Reader:
    """Takes what a writer of another process handed."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._map: mmap.mmap | None = None

    def take(self, handed: Handed) -> tuple[np.ndarray[Any, Any], ...]:
        """Return views, which change with the next tensors.

        Raises:
            RunError: they are not there, or no numbers.
        """
        try:
            if self._map is None or handed.file != self._file:
                with handed.file.open("rb") as file:
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._file = handed.file
            return tuple(_view(self._map, dtype_of(span.dtype), span) for span in handed.spans)
        except (OSError, ValueError, TypeError) as error:
            raise RunError(f"its tensors cannot be taken from {handed.file} ({error}).") from error


def _view(memory: mmap.mmap, dtype: np.dtype[Any], span: Span) -> np.ndarray[Any, Any]:
    import numpy as np

    if kind_of(np.empty(0, dtype)) not in "biufc" or min(span.shape, default=0) < 0:
        raise ValueError(f"{span} is no tensor of numbers")
    return np.frombuffer(memory, dtype, math.prod(span.shape), span.at).reshape(span.shape)
