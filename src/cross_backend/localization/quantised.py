"""Quantised programs: what each operator's rounding costs the outputs, and the fewest operators to keep in float."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from cross_backend.localization.found import LayerCost
from cross_backend.localization.parts import Parts
from cross_backend.localization.whole import Values, Whole
from cross_backend.tensors import kind_of
from cross_backend.verify.deviation import decibels

SHOWING_S = 180.0
"""Seconds after which a program is cut in no further pieces to see its values."""


def seen_in_pieces(parts: Parts) -> list[tuple[list[int], Values]]:
    """Return the values of a program on its backend, by piece: (operators by number, values that they return there).

    The whole program is one piece where it can be lowered with all of its values as outputs. Vendors' compilers refuse
    some of such programs: XNNPACK's several outputs of four dimensions, so values are asked for as rows, too. A piece
    that fails in both ways is halved. An operator that fails alone is left out, as is what time does not reach.
    """
    until = time.monotonic() + SHOWING_S
    seen: list[tuple[list[int], Values]] = []
    waiting = [(list(range(len(parts.whole.units))), False)]
    while waiting and (not parts.tried or time.monotonic() < until):
        asked = [
            (
                f"operators {piece[0] + 1} to {piece[-1] + 1} and all their values{' as rows' if flat else ''}",
                piece,
                [name for name in parts.names(piece) if name in parts.values],
                flat,
            )
            for piece, flat in waiting
        ]
        tried = parts.try_all(asked)
        seen += [(piece, one.got) for (piece, _), one in zip(waiting, tried, strict=True) if one.got]
        failed = [piece for piece, one in zip(waiting, tried, strict=True) if not one.got]
        waiting = [again for piece in failed for again in _again(*piece)]
    return sorted(seen, key=lambda row: row[0])


def _again(piece: list[int], flat: bool) -> list[tuple[list[int], bool]]:
    """Return how a piece that failed is asked for again: as rows, then in halves."""
    if not flat:
        return [(piece, True)]
    middle = len(piece) // 2
    return [(half, True) for half in (piece[:middle], piece[middle:])] if middle else []


def layer_costs(whole: Whole, values: Values, seen: Sequence[tuple[Sequence[int], Values]]) -> tuple[LayerCost, ...]:
    """Return what each operator's own error does to the program's outputs, the most expensive first.

    The own error of an operator is what the backend computed, less what the reference computes from the backend's own
    inputs. It is added to the reference's value, and the rest of the program is computed in float32: the outputs then
    show this error and no other.

    Args:
        whole: the program.
        values: what the reference computes.
        seen: what the backend computed of it, see :func:`seen_in_pieces`.
    """
    rows = []
    for numbers, got in seen:
        inside = {name for at in numbers for name in whole.units[at]}
        given = {name: one for name, one in values.items() if name not in inside} | dict(got)
        for unit in (whole.units[at] for at in numbers):
            own = _own_errors(whole, unit, given, values)
            if own:
                changed = {name: (values[name] + error).astype(values[name].dtype) for name, error in own.items()}
                rows.append(_cost(whole, values, unit, changed))
    return by_cost(rows)


def estimated_costs(
    whole: Whole, values: Values, numbers: Iterable[int], rows: Sequence[Values]
) -> tuple[LayerCost, ...]:
    """Return what rounding the values of some operators to 8 bits would do to the outputs, the most expensive first.

    No backend is asked: values are rounded to 256 steps between their smallest and their largest, or 0, of all
    calibration inputs. On a backend that quantises every operator the order is close to the measured one.

    Args:
        whole: the program.
        values: what the reference computes for one input.
        numbers: of the operators.
        rows: what it computes for the calibration inputs.
    """
    import numpy as np

    found = []
    for unit in (whole.units[at] for at in numbers):
        names = [name for name in unit if name in values and kind_of(values[name]) == "f" and values[name].size]
        changed = {name: _in_8_bits(values[name], [row[name] for row in rows]) for name in names}
        if any(not np.array_equal(values[name], one, equal_nan=True) for name, one in changed.items()):
            found.append(replace(_cost(whole, values, unit, changed), is_estimated=True))
    return by_cost(found)


def by_cost(rows: Iterable[LayerCost]) -> tuple[LayerCost, ...]:
    """Return operators in order, the most expensive first."""
    return tuple(sorted(rows, key=lambda row: row.output_sqnr_db))


def _in_8_bits(x: Any, seen: Sequence[Any]) -> Any:
    import numpy as np

    low = min(0.0, *(float(one.min()) for one in seen))
    step = (max(0.0, *(float(one.max()) for one in seen)) - low) / 255
    if not 0 < step < math.inf:
        return x
    return (np.clip(np.rint((x - low) / step), 0, 255) * step + low).astype(x.dtype)


def _cost(whole: Whole, values: Values, unit: Sequence[str], changed: Values) -> LayerCost:
    """Return what other values of one operator do to the outputs."""
    suspect = whole.suspect(unit, values)
    own = sqnr_db([values[name] for name in changed], list(changed.values()))
    outputs = sqnr_db([values[name] for name in whole.outputs], whole.finish(values, changed))
    return LayerCost(unit[0], suspect.operator, suspect.line, own, outputs)


def _own_errors(whole: Whole, unit: Sequence[str], given: Values, values: Values) -> dict[str, Any]:
    """Return the error that an operator itself makes in each of its values; nothing where it makes none."""
    import numpy as np

    names = [name for name in unit if name in given and name in values and kind_of(values[name]) == "f"]
    needs = whole.needs(unit)
    if not names or not all(name in given for name in needs):
        return {}
    exact = whole.compute(names, {name: given[name] for name in needs})
    found = {name: given[name].astype(np.float64) - exact[name].astype(np.float64) for name in names}
    return {name: error for name, error in found.items() if np.isfinite(error).all() and error.any()}


def sqnr_db(wanted: Sequence[Any], got: Sequence[Any]) -> float:
    """Return 10·log10(Σ want² / Σ (got − want)²) over all outputs, dB; infinite where they are equal."""
    import numpy as np

    floats = [
        (a.astype(np.float64), b.astype(np.float64)) for a, b in zip(wanted, got, strict=True) if kind_of(a) == "f"
    ]
    signal = sum(float((a * a).sum()) for a, _ in floats)
    noise = sum(float(((a - b) ** 2).sum()) for a, b in floats)
    return decibels(signal, noise)


def drop(wanted: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]]) -> float:
    """Return the share of inputs of which the likeliest class is another; where there are no classes, the error.

    Args:
        wanted: outputs of the reference for each input; classes lie along the last axis of the first output.
        got: those of the backend.

    Returns:
        A share; without classes the root of noise over signal.
    """
    first = wanted[0][0]
    if first.ndim >= 2 and first.shape[-1] > 1 and math.prod(first.shape[:-1]) == first.shape[0]:
        pairs = [(a[0].argmax(-1) != b[0].argmax(-1)) for a, b in zip(wanted, got, strict=True)]
        return float(sum(one.sum() for one in pairs) / sum(one.size for one in pairs))
    flat = sqnr_db([one for row in wanted for one in row], [one for row in got for one in row])
    return 10 ** (-flat / 20)


def fewest(most: int, drop_of: Callable[[int], float], limit: float) -> int | None:
    """Return the fewest operators whose keeping in float holds a limit, by doubling and bisection.

    Args:
        most: how many there are.
        drop_of: the drop where so many, the most expensive first, are in float.
        limit: largest drop.
    """
    count = 0
    while drop_of(count) > limit:
        if count >= most:
            return None
        count = min(most, 2 * count or 1)
    low, high = count // 2, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if drop_of(middle) <= limit else (middle, high)
    return high
