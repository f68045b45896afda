"""Ranges: which weights a narrow type cannot hold, and which activations leave the range that was calibrated."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.program.lines import named_lines
from cross_backend.program.running import Runs
from cross_backend.tensors import from_numpy

if TYPE_CHECKING:
    from torch.export import ExportedProgram

NARROW = ("fp16", "bf16", "int8")
"""Precisions whose ranges are checked."""
LARGEST = {"fp16": 65504.0, "bf16": 3.3895e38}
"""Precision → its largest finite number."""
SHOWN = 3
"""Operators and weights that are named, the worst first."""
SATURATING = 0.01
"""Share of an operator's values beyond the calibrated range that is worth a warning."""
FAR = 1.5
"""So many times the range is always worth one."""
SLACK = 0.01
"""Of a range, on each side: what lies so near is no loss."""
MOST_INPUTS = 16
MOST_S = 20.0
"""Of calibration inputs that are run, and how long; the range of the others is not known."""


@dataclass(frozen=True)
class _Seen:
    """What one node's output was."""

    low: float
    high: float
    outside: float = 0.0
    """Share of its values that lie outside a range that is known."""


def out_of_range(
    program: ExportedProgram, precision: str, calibration: Sequence[Sequence[Any]], sample: Sequence[Any]
) -> tuple[str, ...]:
    """Return a sentence for each weight and operator whose values a precision cannot hold, worst first; few of them.

    Args:
        program: as it was captured.
        precision: ``fp16``, ``bf16``: largest finite number. ``int8``: the range of each operator over the calibration
            inputs, against its values on the sample. Others have nothing to tell.
        calibration: flat NumPy arrays of each calibration input.
        sample: those of the sample.
    """
    if precision in LARGEST:
        return (*_weights(program, LARGEST[precision], precision), *_beyond(program, precision, sample))
    if precision != "int8" or any(_same(row, sample) for row in calibration):
        return ()
    return _saturated(program, calibration, sample)


def _weights(program: ExportedProgram, largest: float, precision: str) -> list[str]:
    import torch

    held = {**program.state_dict, **{name: x for name, x in program.constants.items() if isinstance(x, torch.Tensor)}}
    found = []
    for name, tensor in held.items():
        if tensor.is_floating_point() and tensor.numel():
            top = float(torch.nan_to_num(tensor.detach().double().abs(), 0.0, 0.0).max())
            if top > largest:
                found.append((top, name))
    found.sort(reverse=True)
    return [
        f"weight {name} reaches {top:.3g}; {precision} ends at {largest:,.5g}, beyond which it is infinite"
        for top, name in found[:SHOWN]
    ]


def _beyond(program: ExportedProgram, precision: str, sample: Sequence[Any]) -> list[str]:
    seen = _ranges(program, [sample])
    tops = {name: max(abs(one.low), abs(one.high)) for name, one in seen.items()}
    found = sorted(((top, name) for name, top in tops.items() if top > LARGEST[precision]), reverse=True)
    told = named_lines(program)
    return [
        f"{told[name]} reaches {top:.3g} on the sample; {precision} ends at {LARGEST[precision]:,.5g}"
        for top, name in found[:SHOWN]
    ]


def _saturated(
    program: ExportedProgram, calibration: Sequence[Sequence[Any]], sample: Sequence[Any]
) -> tuple[str, ...]:
    known = _ranges(program, calibration[:MOST_INPUTS])
    outside = _ranges(program, [sample], known)
    told = named_lines(program)
    found = []
    for name, one in outside.items():
        wide = known[name].high - known[name].low
        if wide <= 0:
            continue
        middle = (known[name].high + known[name].low) / 2
        far = max(abs(one.low - middle), abs(one.high - middle)) / (wide / 2)
        share = one.outside
        if share >= SATURATING or (share and far >= FAR):
            found.append((share, far, name))
    found.sort(reverse=True)
    return tuple(
        f"{told[name]} saturates: {100 * share:.3g} % of its values on the sample lie beyond what calibration "
        f"observed, up to {far:.2g} times its range"
        for share, far, name in found[:SHOWN]
    )


def _ranges(
    program: ExportedProgram, rows: Sequence[Sequence[Any]], known: Mapping[str, _Seen] | None = None
) -> dict[str, _Seen]:
    """Run a program on inputs, and return what each node with floating point numbers gave, over all of them."""
    import torch

    seen: dict[str, _Seen] = {}

    class Watched(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            made = super().run_node(n)
            if n.op == "call_function" and isinstance(made, torch.Tensor) and made.is_floating_point() and made.numel():
                low, high = float(made.min()), float(made.max())
                if math.isfinite(low) and math.isfinite(high):
                    before = seen.get(n.name, _Seen(low, high))
                    outside = before.outside
                    if known is not None and n.name in known:
                        slack = SLACK * (known[n.name].high - known[n.name].low)
                        beyond = (made < known[n.name].low - slack) | (made > known[n.name].high + slack)
                        outside = max(outside, float(beyond.double().mean()))
                    seen[n.name] = _Seen(min(low, before.low), max(high, before.high), outside)
            return made

    runs, began = Runs(program), time.monotonic()
    with torch.no_grad():
        for row in rows:
            Watched(runs.module()).run(*(from_numpy(x) for x in row))
            if time.monotonic() - began > MOST_S:
                break
    return seen


def _same(row: Sequence[Any], sample: Sequence[Any]) -> bool:
    import numpy as np

    return all(np.array_equal(a, b) for a, b in zip(row, sample, strict=True))
