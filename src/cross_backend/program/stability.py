"""Stability: how far rounding moves a program's outputs on one input, and which inputs say nothing for that reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.program.running import Runs, run_disturbed, run_narrow, run_wide
from cross_backend.tensors import kind_of
from cross_backend.verify.deviation import deviation, scale_of
from cross_backend.verify.narrow import NARROW, noise_of
from cross_backend.verify.sample import JUMP, with_jumps

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]

JUMP_STEPS = 16
"""Rounding errors of each value that a right target may make: an element that jumps under them is no proof.

It is above the gain of float32's tolerance, which takes outputs to move in proportion up to there.
"""
UNSTABLE = 1e-3
"""Where rounding changes an element by more of its scale, a probe says nothing."""

UNSTABLE_STEPS = 8
"""The same of outputs of 16 bits, in steps of their type from 1 to the next number."""


@dataclass(frozen=True)
class Stability:
    """What rounding does to the outputs for one input."""

    rounding: float = 0.0
    """Largest deviation of an element under one rounding error a value."""
    reason: str | None = None
    """Why the input says nothing."""
    scale: Arrays = ()
    """Smallest scale of each element, where some jump."""


def stability_on(runs: Runs, first: Arrays, leaves: Sequence[Any], outputs: Arrays) -> Stability:
    """Return what rounding changes on an input, or why the input says nothing.

    One rounding error a value shows how far the outputs move. Sixteen show whether they move in proportion: a gate that
    is nearly a tie stays where it is under one, and turns in a target that sums in another order. It turns one way
    only, so both signs are tried.

    Where float64 computes the very same, nothing was rounded: every backend meets ties and thresholds exactly.
    But for a normalisation of equal numbers, whose mean is exact in one order of its sum and rounded in another.

    Args:
        runs: of the program.
        first: reference outputs of the sample, for the scale.
        leaves: tensors of the input.
        outputs: reference outputs for it.
    """
    import numpy as np

    if not all(np.isfinite(y).all() for y in outputs if kind_of(y) in "fc"):
        return Stability(reason="the outputs are not finite")
    wide = run_wide(runs, leaves)
    if wide is not None and not runs.met_constants and all(map(np.array_equal, outputs, wide)):
        return Stability()
    near: list[Arrays] = [] if wide is None else [wide]
    if wide is None or runs.jumps or runs.met_constants:
        near += [one for one in [run_disturbed(runs, leaves, 0)] if one is not None]
    for again in near:
        if not all(map(np.array_equal, _whole(outputs), _whole(again))):
            return Stability(reason="whole numbers change with rounding")
    shaken = [run_disturbed(runs, leaves, 1, steps=steps) or outputs for steps in (JUMP_STEPS, -JUMP_STEPS)]
    scales = scales_of(outputs, first)
    lifted: list[Any] = list(scales)
    if runs.jumps:
        for again in (*shaken, *near):
            lifted = [with_jumps(*row) for row in zip(outputs, again, lifted, strict=True)]
    seen = max((_largest(outputs, again, lifted) for again in near), default=0.0)
    jump = max(_largest(outputs, again, lifted) for again in shaken)
    reason = None
    if not seen <= unstable(runs):
        reason = f"rounding changes the outputs by {seen:.2g} of their scale"
    elif not jump <= _most(runs, JUMP, JUMP_STEPS * UNSTABLE_STEPS):
        reason = f"{JUMP_STEPS} rounding errors a value change the outputs by {jump:.2g} of their scale"
    is_lifted = any(a is not b for a, b in zip(scales, lifted, strict=True))
    seen = max(seen, jump / JUMP_STEPS)
    return Stability(seen, reason, [one.astype(np.float32) for one in lifted] if is_lifted else ())


def unstable(runs: Runs) -> float:
    """Return the most that rounding may change an element on a probe."""
    return _most(runs, UNSTABLE, UNSTABLE_STEPS)


def _most(runs: Runs, of_float32: float, steps: int) -> float:
    """Return a limit; of outputs of 16 bits as many steps of their type where that is more."""
    import torch

    narrow = (torch.finfo(one).eps for one in runs.output_types if one in {torch.float16, torch.bfloat16})
    return max(of_float32, min(steps * max(narrow, default=0.0), 1.0))


def noises_on(runs: Runs, rows: Sequence[tuple[Sequence[Any], Arrays, Arrays]]) -> list[dict[str, float]]:
    """Return for each input: 16-bit precision → what exact rounding to its type changes; see ``verify.narrow``.

    Args:
        runs: of the program; where it has state, one row only.
        rows: tensors of an input, reference outputs for it, and their scales.
    """
    found: list[dict[str, float]] = [{} for _ in rows]
    for precision in NARROW:
        runs_on_all = run_narrow(runs, [leaves for leaves, _, _ in rows], precision)
        for noises, again, (_, outputs, scales) in zip(found, runs_on_all, rows, strict=True):
            if again is not None:
                noises[precision] = noise_of([(outputs, again, scales)])
    return found


def scales_of(outputs: Arrays, first: Arrays) -> list[np.ndarray[Any, Any]]:
    """Return the scales of outputs for an input beside the sample, whose outputs are ``first``."""
    import numpy as np

    return [
        scale_of(want, one if one.shape == want.shape else None) if kind_of(want) in "fc" else np.zeros(want.shape)
        for want, one in zip(outputs, first, strict=True)
    ]


def _whole(outputs: Arrays) -> Arrays:
    return [y for y in outputs if kind_of(y) not in "fc"]


def _largest(outputs: Arrays, again: Arrays, scales: Arrays) -> float:
    """Return the largest deviation of an element of outputs that keep their shape."""
    seen = 0.0
    for want, got, scale in zip(outputs, again, scales, strict=True):
        if kind_of(want) in "fc" and want.size and want.shape == got.shape:
            seen = max(seen, float(deviation(want, got, scale).max()))
    return seen
