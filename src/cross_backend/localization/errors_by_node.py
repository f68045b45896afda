"""Errors by node: how far each value of a program is off, and what of it each operator adds itself."""

from __future__ import annotations

import math
from typing import Any

from cross_backend.localization.found import NodeError
from cross_backend.localization.whole import Values, Whole
from cross_backend.tensors import kind_of
from cross_backend.verify.compare import tolerance_of
from cross_backend.verify.deviation import deviation, scale_of
from cross_backend.verify.sample import UNIT


def errors_by_node(
    whole: Whole, values: Values, other: Values, rounded: Values, got: Values, precision: str
) -> list[NodeError]:
    """Return one row for each value that a backend showed, in the order of the program.

    Args:
        whole: the program.
        values: what the reference computes.
        other: the same for another input, for the scale of each element; may be empty.
        rounded: the same under other rounding errors; may be empty.
        got: what the backend computed.
        precision: of the backend.
    """
    rows = []
    known = {name: one for name, one in values.items() if not any(name in unit for unit in whole.units)}
    for unit in whole.units:
        shown = [name for name in unit if name in got and name in values]
        if not shown:
            continue
        suspect = whole.suspect(unit, values)
        local = _locally(whole, shown, {**known, **got}, unit)
        inherited = any(
            _is_broken(got[name]) and not _is_broken(values[name]) for name in whole.needs(unit) if name in got
        )
        for name in shown:
            scale = _scale(values[name], other.get(name))
            rounding = max(_off(values[name], rounded[name], scale) if name in rounded else 0.0, UNIT)
            rounding = rounding if math.isfinite(rounding) else UNIT
            error = _off(values[name], got[name], scale)
            alone = _off(local[name], got[name], scale) if name in local else error
            allowed = tolerance_of(precision, rounding) if kind_of(values[name]) in "fc" else 0.0
            is_wrong = alone > allowed and not inherited
            rows.append(NodeError(name, suspect.operator, suspect.line, error, alone, rounding, is_wrong))
    return rows


def _locally(whole: Whole, names: list[str], given: Values, unit: tuple[str, ...]) -> Values:
    """Return what the reference computes of an operator's values from the backend's own inputs, if all are known."""
    if not all(name in given for name in whole.needs(unit)):
        return {}
    try:
        return whole.compute(names, {name: given[name] for name in whole.needs(unit)})
    except Exception:  # an index that the backend computed wrongly, say
        return {}


def _is_broken(x: Any) -> bool:
    """Whether there are NaN or infinities: what follows from them says nothing of the next operator."""
    import numpy as np

    return kind_of(x) in "fc" and not np.isfinite(x).all()


def _scale(want: Any, other: Any | None) -> Any:
    import numpy as np

    if kind_of(want) not in "fc":
        return np.zeros(want.shape)
    same = other is not None and other.shape == want.shape and not np.array_equal(want, other)
    return scale_of(want, other if same else None)


def _off(want: Any, got: Any, scale: Any) -> float:
    """Return the largest deviation of an element; of whole numbers the share that differs; infinite for a shape."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return math.inf
    if not want.size:
        return 0.0
    if kind_of(want) not in "fc":
        return float((want != got).mean())
    return float(deviation(want, got, scale).max())
