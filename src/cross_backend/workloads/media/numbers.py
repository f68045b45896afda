"""Plain numbers, written or set by sliders, and the numbers that a model answers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cross_backend.errors import UsageError
from cross_backend.workloads.media.base import Media, Prepared, called, check_length
from cross_backend.workloads.media.shown import Shown, finite

if TYPE_CHECKING:
    import numpy as np

MOST = 10_000
"""Numbers that go in, and outputs that are shown."""


@dataclass(frozen=True, kw_only=True)
class NumbersMedia(Media):
    """As many numbers as there are names."""

    kind: ClassVar[str] = "numbers"
    what: ClassVar[str] = "numbers"
    accepts: ClassVar[tuple[str, ...]] = ("text/plain", "text/csv", "application/json")
    names: tuple[str, ...]
    """What each number is."""
    low: float = 0.0
    """Where sliders begin; other numbers are taken, too."""
    high: float = 1.0
    """Where they end."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.names) <= MOST or not self.low < self.high:
            raise ValueError("there are no numbers, or sliders end before they begin")

    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return ``(1, n)`` in float32, from ``1, 2, 3`` or ``1 2 3`` or ``[1, 2, 3]``."""
        import numpy as np

        check_length(data, name)
        try:
            text = data.decode().strip()
            values = json.loads(text) if text.startswith("[") else text.replace(",", " ").split()
            numbers = [float(value) for value in values]
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise UsageError(f"{called(name)} does not hold numbers such as 1,2,3,4.") from None
        if len(numbers) != len(self.names):
            raise UsageError(f"{called(name)} holds {len(numbers)} numbers, not {len(self.names)}.")
        largest = float(np.finfo(np.float32).max)
        if not all(math.isfinite(number) and abs(number) <= largest for number in numbers):
            raise UsageError(f"{called(name)} holds numbers that are not finite in float32.")
        return Prepared([np.array([numbers], np.float32)], Shown(self.kind, caveats=self.caveats()))

    def present(self, outputs: Sequence[np.ndarray[Any, Any]], prepared: Prepared) -> Shown:
        """Return the outputs as they are."""
        return replace(prepared.seen, numbers=tuple(map(float, finite(outputs[0][:1]).ravel()[:MOST])))
