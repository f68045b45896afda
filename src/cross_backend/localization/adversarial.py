"""Adversarial: inputs that maximise the difference between a target and the reference, within the inputs' ranges.

Where the reference has gradients, candidates climb along them: large outputs overflow. The others come from evolution:
a small population of inputs is scaled, moved, set to extremes and mixed, and the worst for the target survive. What
rounding alone may change says nothing, by the rule for probes (``program/stability``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from cross_backend.errors import CrossBackendError, one_line
from cross_backend.names.precisions import CALIBRATED
from cross_backend.program.hints import hints_of
from cross_backend.program.running import Runs
from cross_backend.program.stability import noises_on, scales_of, stability_on
from cross_backend.tensors import from_numpy, kind_of, to_numpy
from cross_backend.verify.compare import compare_further, says_nothing, tolerance_of
from cross_backend.verify.deviation import deviation
from cross_backend.verify.further import OWN, PROBE, KnownInput, further_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from torch.export import ExportedProgram

Arrays: TypeAlias = "Sequence[np.ndarray[Any, Any]]"
"""Flat tensors."""

POPULATION = 12
FARTHEST = 2.0**14
"""Times the sample's largest value: how far floating point inputs go where nothing bounds them."""
NARROW_RANGE = 2.0
"""The same for 16-bit arithmetic, as for probes."""
CLIMBING = 0.25
"""Share of candidates that follow a gradient."""
STRANGE = 1e4
"""Score of an output that is NaN or infinite where the reference is finite."""

Run = Callable[[Arrays], Arrays]
"""Returns a target's outputs."""


@dataclass(frozen=True)
class Hunt:
    """What a search found."""

    found: KnownInput | None
    """The input on which the target is wrong; None where there is none."""
    reason: str
    """Why its outputs are wrong; empty where none is found."""
    tried: int
    """Inputs on which both were run."""
    unstable: int
    """Inputs left out, because rounding alone changes the program's outputs there."""
    worst: float
    """Largest deviation seen on the others, as a multiple of the tolerance."""


@dataclass
class _Range:
    """Least and largest value of an input."""

    low: float
    high: float
    whole: bool = False


@dataclass
class _Score:
    """An input, and how far the target is from the reference on it."""

    inputs: Arrays
    value: float


@dataclass
class _State:
    tried: int = 0
    unstable: int = 0
    worst: float = 0.0
    population: list[_Score] = field(default_factory=list)


def hunt(
    program: ExportedProgram,
    sample: Mapping[str, Arrays],
    run: Run,
    precision: str,
    seconds: float,
    seed: int = 0,
    *,
    bounded: bool = False,
    other: Run | None = None,
    show: Callable[[int, float, float], None] = lambda _tried, _worst, _left_s: None,
) -> Hunt:
    """Search for an input on which a target is wrong.

    Args:
        program: flat, without state.
        sample: groups of its sample file.
        run: the target.
        precision: of the target.
        seconds: no candidate begins later; two runs of a seed try the same candidates in the same order.
        seed: of what is drawn.
        other: another target, with which it is compared in place of the reference.
        bounded: whether floating point inputs stay in the sample's range, as pictures do.
        show: told of the inputs tried, of the worst deviation per tolerance, and of the seconds left.
    """
    import numpy as np

    runs, rng = Runs(program), np.random.default_rng(seed)
    ranges = _ranges(program, sample["input"], precision, bounded=bounded)
    began, state = time.monotonic(), _State()
    candidates = _candidates(runs, sample, ranges, rng, state)
    while (left_s := seconds - (time.monotonic() - began)) > 0:
        show(state.tried, state.worst, left_s)
        inputs = next(candidates)
        found = _tried(runs, sample, inputs, (run, other), precision, state)
        if found is not None:
            return Hunt(found[0], found[1], state.tried, state.unstable, state.worst)
    return Hunt(None, "", state.tried, state.unstable, state.worst)


def _tried(
    runs: Runs,
    sample: Mapping[str, Arrays],
    inputs: Arrays,
    targets: tuple[Run, Run | None],
    precision: str,
    state: _State,
) -> tuple[KnownInput, str] | None:
    """Run both on an input; return it, with the reference's outputs, and the reason where the target is wrong."""
    import torch
    from torch.utils import _pytree

    leaves = [from_numpy(x) for x in inputs]
    try:
        with torch.no_grad():
            expected = [to_numpy(y) for y in _pytree.tree_leaves(runs.module()(*leaves))]
        wanted = expected if targets[1] is None else targets[1](inputs)
    except Exception:  # it is no input of the model, or of the other target
        return None
    state.tried += 1
    try:
        got, reason = targets[0](inputs), None
    except CrossBackendError as error:
        got, reason = (), f"it failed: {one_line(error)}"
    score = STRANGE if reason else _score(wanted, got, sample["expected"], precision)
    if score > state.worst or score > 1:
        stable = stability_on(runs, sample["expected"], leaves, expected)
        if stable.reason is not None:
            state.unstable += 1
            return None
        (noises,) = noises_on(runs, [(leaves, expected, scales_of(expected, sample["expected"]))])
        known = KnownInput(f"adversarial {state.tried}", inputs, expected, stable.rounding, stable.scale, noises)
        if says_nothing(known, precision) is not None:
            state.unstable += 1
            return None
        state.worst = max(state.worst, score)
        reason = reason or compare_further(sample, replace(known, expected=wanted), got, precision)
        if reason is not None:
            return known, reason
    state.population.append(_Score(inputs, score))
    state.population.sort(key=lambda one: -one.value)
    del state.population[POPULATION:]
    return None


def _score(expected: Arrays, got: Arrays, first: Arrays, precision: str) -> float:
    """Return the largest deviation as a multiple of the tolerance."""
    import numpy as np

    if [(y.shape, y.dtype) for y in expected] != [(y.shape, y.dtype) for y in got]:
        return STRANGE
    worst, tolerance = 0.0, tolerance_of(precision)
    for want, have, scale in zip(expected, got, scales_of(expected, first), strict=True):
        if kind_of(want) not in "fc":
            worst = max(worst, STRANGE if (want != have).any() else 0.0)
        elif want.size:
            found = float(np.max(deviation(want, have, scale)))
            worst = max(worst, found / tolerance if math.isfinite(found) else STRANGE)
    return worst


def _ranges(program: ExportedProgram, inputs: Arrays, precision: str, *, bounded: bool) -> list[_Range]:
    """Return the range of each input: the sample's for quantised targets and pictures, a wide one for other floats."""
    found = []
    for x, hint in zip(inputs, hints_of(program), strict=True):
        if kind_of(x) == "b" or not x.size:
            found.append(_Range(0, 1, whole=True))
        elif kind_of(x) in "iu":
            high = hint.rows - 1 if hint.rows is not None else int(x.max())
            found.append(_Range(0 if hint.rows is not None else int(x.min()), high, whole=True))
        elif bounded or precision in CALIBRATED:
            found.append(_Range(float(x.min()), float(x.max())))
        else:
            far = FARTHEST if precision == "fp32" else NARROW_RANGE
            largest = 6e4 if x.dtype.name == "float16" else 1e18  # of the type, with room for one product
            most = min(far * (float(abs(x.astype("float64")).max()) or 1.0), largest)
            found.append(_Range(-most, most))
    return found


def _candidates(
    runs: Runs, sample: Mapping[str, Arrays], ranges: Sequence[_Range], rng: Any, state: _State
) -> Iterator[Arrays]:
    """Yield what is known first, then the sample at growing sizes, then what evolution makes of the population."""
    known = [sample["input"], *(one.inputs for kind in (OWN, PROBE) for one in further_of(kind, sample))]
    for inputs in known:
        yield _within(inputs, ranges)
    factor = 2.0
    while factor <= FARTHEST:
        for inputs in known[:2]:
            for sign in (1.0, -1.0):
                yield _within([x * x.dtype.type(sign * factor) if kind_of(x) == "f" else x for x in inputs], ranges)
        factor *= 4.0
    while True:
        parents = [one.inputs for one in state.population] or known
        parent = parents[int(rng.integers(len(parents)))]
        climbed = _climbed(runs, parent, ranges, rng) if rng.random() < CLIMBING else None
        yield climbed or _changed(parent, parents[int(rng.integers(len(parents)))], ranges, rng)


def _within(inputs: Arrays, ranges: Sequence[_Range]) -> list[Any]:
    import numpy as np

    return [
        x if kind_of(x) not in "fiu" else np.clip(x.astype(np.float64), one.low, one.high).astype(x.dtype)
        for x, one in zip(inputs, ranges, strict=True)
    ]


def _climbed(runs: Runs, inputs: Arrays, ranges: Sequence[_Range], rng: Any) -> list[Any] | None:
    """Move an input up the gradient of the size of the outputs; None where there is no gradient."""
    import torch
    from torch.utils import _pytree

    leaves = [from_numpy(x).clone() for x in inputs]
    moving = [x.requires_grad_() for x in leaves if x.is_floating_point()]
    step = float(2.0 ** rng.uniform(-8, 0))
    try:
        with torch.enable_grad():
            outputs = [y for y in _pytree.tree_leaves(runs.module()(*leaves)) if y.is_floating_point()]
            size = sum(y.float().square().sum().clamp(max=1e30).log1p() for y in outputs)
            gradients = torch.autograd.grad(size, moving, allow_unused=True)
    except (RuntimeError, TypeError):
        return None
    if all(one is None or not bool(one.any()) for one in gradients):
        return None
    waiting = list(gradients)
    moved = []
    for x, one in zip(leaves, ranges, strict=True):
        gradient = waiting.pop(0) if x.is_floating_point() else None
        moved.append(x.detach() if gradient is None else x.detach() + gradient.sign() * step * one.high)
    return _within([to_numpy(x) for x in moved], ranges)


def _changed(inputs: Arrays, other: Arrays, ranges: Sequence[_Range], rng: Any) -> list[Any]:
    """Change an input in one of five ways, drawn for each tensor."""
    import numpy as np

    found = []
    for x, y, one in zip(inputs, other, ranges, strict=True):
        wide, way = x.astype(np.float64), int(rng.integers(5))
        chosen = rng.random(x.shape) < 2.0 ** -rng.integers(0, 6)
        if kind_of(x) == "c":
            found.append(x)
            continue
        if one.whole:
            made = np.where(chosen, rng.integers(int(one.low), int(one.high) + 1, x.shape), x)
        elif way == 0:
            made = wide * 2.0 ** rng.integers(-4, 5)
        elif way == 1:
            made = wide + chosen * rng.standard_normal(x.shape) * (np.abs(wide).max(initial=0.0) or 1.0)
        elif way == 2:
            made = np.where(chosen, rng.choice([one.low, one.high, 0.0, one.high / 2], x.shape), wide)
        elif way == 3:
            made = np.where(chosen, y.astype(np.float64), wide)
        else:
            made = np.full(x.shape, rng.uniform(one.low, one.high))
        found.append(np.asarray(np.clip(made, one.low, one.high)).astype(x.dtype))
    return found
