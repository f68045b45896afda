"""Figures: durations, ratios and differences as texts with no more digits than their intervals say are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cross_backend.measurement import Interval

UNITS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"), (1e-6, "ns"))
"""(Milliseconds, name) of the units of time, the largest first."""
MOST_DIGITS = 4
"""Significant digits of a figure however narrow its interval; ``--json`` has all."""
WIDE = 3.0
"""An interval whose ends differ by more than this factor says what order of magnitude, not which digit."""


def decimals(value: float, half_width: float | None) -> int:
    """Return how many digits after the point are known; negative where not even the last before it is.

    The last digit shown is one of which the half-width of the interval holds two to twenty: 0.03 shows hundredths.
    """
    if not (math.isfinite(value) and value):
        return 0
    most = MOST_DIGITS - 1 - math.floor(math.log10(abs(value)))
    if half_width is None or not half_width > 0:
        return most if half_width is not None else most - 1
    # An interval wider than the figure itself still leaves its first digit.
    known = min(half_width, abs(value))
    return min(-math.floor(math.log10(known / 2)), most)


def number(value: float, places: int) -> str:
    """Return a number rounded to so many digits after the point, or before it where negative."""
    return f"{round(value, places):,.{max(places, 0)}f}"


def half_width(interval: Interval) -> float:
    """Return half of what an interval spans."""
    return (interval.high - interval.low) / 2


def with_interval(found: Interval, places: int) -> str:
    """Return ``value [low, high]``, all to the same digit; each to two of its own where the interval is wide."""
    numbers = (found.value, found.low, found.high)
    if 0 < WIDE * found.low < found.high:
        value, low, high = (number(end, 1 - math.floor(math.log10(end))) for end in numbers)
    else:
        value, low, high = (number(end, places) for end in numbers)
    return f"{value} [{low}, {high if found.high < 1000 * abs(found.value) else '∞'}]"


def _unit(value_ms: float) -> tuple[float, str]:
    return next((unit for unit in UNITS if abs(value_ms) >= unit[0]), UNITS[-1])


def duration(value_ms: float, known: Interval | None = None) -> str:
    """Return a duration in the unit that reads best.

    Args:
        value_ms: milliseconds.
        known: the interval, in milliseconds, that says how many digits are known; three where None.
    """
    scale, name = _unit(value_ms)
    half = None if known is None else half_width(known) / scale
    return f"{number(value_ms / scale, decimals(value_ms / scale, half))} {name}"


def interval(found: Interval) -> str:
    """Return the interval of a duration, in the unit and with the digits of the duration itself."""
    scale, _ = _unit(found.value)
    scaled = Interval(found.value / scale, found.low / scale, found.high / scale)
    return with_interval(scaled, decimals(scaled.value, half_width(scaled))).partition(" ")[2]


def ratio(found: Interval | None) -> str:
    """Return a ratio to the leader with its interval, ``1.15 [1.12, 1.18]``; the leader's own is 1."""
    if found is None:
        return "–"
    if found.value == found.low == found.high == 1:
        return "1"
    return with_interval(found, _clear_of(1.0, found))


def _clear_of(border: float, found: Interval) -> int:
    """Return how many digits after the point to show: up to two more where an end would be rounded to the border.

    An interval that leaves out "no difference" must be seen to do so.
    """
    places = decimals(found.value, half_width(found))
    for more in (0, 1):
        if not any(end != border and round(end, places + more) == border for end in (found.low, found.high)):
            return places + more
    return places + 2


def aligned(texts: Sequence[str]) -> list[str]:
    """Return the texts of ratios padded so that their points and brackets stand below each other."""
    parts = []
    for text in texts:
        figure, _, rest = text.partition(" ")
        whole, point, fraction = figure.partition(".")
        parts.append((whole, point + fraction, rest))
    before, after = (max((len(part[i]) for part in parts), default=0) for i in (0, 1))
    lines = [f"{whole:>{before}}{fraction:<{after}} {rest}".rstrip() for whole, fraction, rest in parts]
    return [line.ljust(max(map(len, lines))) for line in lines]


def faster(leader: str, other: str, found: Interval) -> str:
    """Return how much faster one is than another, which takes ``found`` times as long."""
    if found.value >= 2:
        return f"{leader} is {ratio(found)} times as fast as {other}"
    percent = Interval(*((end - 1) * 100 for end in (found.value, found.low, found.high)))
    places = max(_clear_of(0.0, percent), 0)
    figure, low, high = (number(end, places) for end in (percent.value, percent.low, percent.high))
    return f"{leader} is faster than {other} by {figure} % [{low}, {high}]"


def share(found: float) -> str:
    """Return a difference rounded up to two digits: 0.0832 is ``8.4 %``, 1.3 is ``2.3 times``."""
    if not 0 < found < math.inf:
        return f"{found * 100:.0f} %"
    size = found * 100 if found < 1 else 1 + found
    step = 10.0 ** (math.floor(math.log10(size)) - 1)
    up = math.ceil(size / step - 1e-9) * step
    text = number(up, max(0, 1 - math.floor(math.log10(up))))
    return f"{text} %" if found < 1 else f"{text} times"
