"""Scales: from values to positions on paper, and where an axis has its ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MANTISSAS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
"""Ticks within a decade of a logarithmic axis, from few to many."""


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map from values to positions."""

    low: float
    """Value at ``start``; above zero where the scale is logarithmic."""
    high: float
    """Value at ``end``; above ``low``."""
    start: float
    """Position, in units of the drawing."""
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value; one beyond the ends is put on the nearer end."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Return at most about ``most`` round values between the ends, ascending."""
        if self.log:
            found = _log_ticks(self.low, self.high, most)
            if len(found) >= 3:
                return found
        return _linear_ticks(self.low, self.high, most)


def scale(
    values: Iterable[float], start: float, end: float, *, log: bool = False, zero: bool = False, room: float = 0.04
) -> Scale:
    """Return a scale that holds all values with a little room at both ends.

    Args:
        values: finite numbers; without any the scale is that from 0 (1 where logarithmic) to 1 (10).
        start: position of the smallest.
        end: position of the largest.
        log: logarithmic; values that are not above zero are put on the lower end.
        zero: begin at zero, as bars must; only for linear scales.
        room: share of the range that is added at each end.
    """
    found = [value for value in values if not log or value > 0]
    if not found:
        return Scale(1.0, 10.0, start, end, log=True) if log else Scale(0.0, 1.0, start, end)
    low, high = min(found), max(found)
    if log:
        span = max(math.log(high / low), 0.2)  # one value alone still gets an axis of some width
        middle = math.sqrt(low) * math.sqrt(high)
        half = math.exp(span * (0.5 + room))
        return Scale(middle / half, middle * half, start, end, log=True)
    if zero:
        return Scale(0.0, max(high, 1e-12) * (1 + room), start, end)
    span = max(high - low, abs(high) * 0.02, 1e-12)
    middle = (low + high) / 2
    return Scale(middle - span * (0.5 + room), middle + span * (0.5 + room), start, end)


def tick_text(value: float) -> str:
    """Return a tick's label: up to six significant digits, without needless zeros or exponents."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        return f"{value:,.6g}" if abs(value) >= 10_000 else f"{value:.6g}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / max(most, 1)
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(decade * factor for factor in _STEPS if decade * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12 - math.floor(math.log10(step))) for index in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    best: list[float] = []
    for mantissas in _MANTISSAS:
        found = [m * 10.0**d for d in decades for m in mantissas if low <= m * 10.0**d <= high]
        if len(found) > most and best:
            break
        best = found
    every = -(-len(best) // most) if best else 1
    return best[::every]
