"""Verify: compare outputs with what eager float32 gave for the same inputs, and say what that proves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cross_backend.records import Comparison
from cross_backend.tensors import BFLOAT16, kind_of
from cross_backend.verify.deviation import decibels, deviation, moved, scale_of
from cross_backend.verify.further import OWN, PROBE, STEP, KnownInput, further_of
from cross_backend.verify.narrow import GAIN, allowed_mean, narrow_of, too_noisy

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Precision:
    """How far an output may be from its reference where arithmetic has this precision."""

    gain: float
    """Tolerance per float32 rounding error of the program; the errors of narrower types are larger by as many bits."""
    least: float
    most: float
    mean: float = math.inf
    """Largest accepted root mean square: errors of narrow types have tails; their mean separates right from wrong."""


PRECISIONS: Mapping[str, Precision] = {
    "fp32": Precision(12.0, 1e-6, 1e-2),
    "fp16": Precision(4.0 * 2**13, 1e-2, 2.0, mean=0.15),
    "bf16": Precision(4.0 * 2**16, 5e-2, 2.0, mean=0.3),
    "int8": Precision(0.0, 4.0, 4.0, mean=0.4),
    "int8dyn": Precision(0.0, 4.0, 4.0, mean=0.4),
    "int4w": Precision(0.0, 6.0, 6.0, mean=0.6),
}
"""Precision of a target → what its outputs may deviate by."""
SLACK = 1.5
"""How much larger the errors of narrow types may be on a probe than on the sample: its range is another."""
UNSTABLE_GAIN = 2.0
"""Tolerance per rounding error where that is more than the largest tolerance."""
ROUNDING = 6e-5
"""What float32's rounding is taken to change where the sample does not say."""
NARROW: Mapping[str, float] = {"float16": 4 * 2**-11, BFLOAT16: 4 * 2**-8}
"""The same of an output's own type: a few roundings to nearest."""


def precision_of(options: Mapping[str, Any]) -> str:
    """Return the precision that a target's options ask for; float32 where they name none."""
    return str(options.get("precision", "fp32"))


def tolerance_of(precision: str, rounding: float | None = None) -> float:
    """Return the largest accepted deviation of an element.

    Args:
        precision: key of :data:`PRECISIONS`.
        rounding: what float32's rounding changes in this program's outputs, see ``sample.rounding_of``.
    """
    rule, seen = PRECISIONS[precision], ROUNDING if rounding is None else rounding
    return min(max(rule.gain * seen, rule.least), max(rule.most, UNSTABLE_GAIN * seen))


def any_moved(first: Arrays, second: Arrays, rounding: float | None) -> bool:
    """Whether a program's outputs depend on its input: one moves by more than float32 may deviate in this program."""
    rounded = tolerance_of("fp32", rounding)
    return any(moved(a, b, rounded) for a, b in zip(first, second, strict=True))


def tolerances_of(sample: Mapping[str, Arrays], options: Mapping[str, Any]) -> dict[str, float]:
    """Return a target's tolerances for a sample, by their names in a bundle: ``tolerance``, ``mean_tolerance``."""
    precision = precision_of(options)
    found = {"tolerance": tolerance_of(precision, _rounding(sample))}
    mean = allowed_mean(PRECISIONS[precision].mean, _noise(sample, precision))
    return found if mean == math.inf else found | {"mean_tolerance": mean}


def says_nothing(one: KnownInput, precision: str) -> str | None:
    """Return why an input beside the sample says nothing of 16-bit targets; None where it does, or for others."""
    return too_noisy(precision, one.narrow.get(precision), PRECISIONS[precision].mean)


def _noise(sample: Mapping[str, Arrays], precision: str) -> float | None:
    return narrow_of(sample.get("narrow", ())).get(precision)


def _told(sample: Mapping[str, Arrays]) -> float | None:
    return float(sample["rounding"][0]) if sample.get("rounding") else None


def _rounding(sample: Mapping[str, Arrays]) -> float | None:
    """Return what rounding changes; of narrow outputs that of their type, where the sample does not say."""
    told = _told(sample)
    if told is not None:
        return told
    return max((NARROW[y.dtype.name] for y in sample.get("expected", ()) if y.dtype.name in NARROW), default=None)


@dataclass(frozen=True)
class _Found:
    """What one output of one input showed."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    place: str = ""
    """Of the element that deviates most: ``output 0 deviates by %s of its scale at [0, 2]``."""
    squares: float = 0.0
    """Sum of the squared deviations."""
    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    dot: complex = 0.0
    norm: float = 0.0


class _WrongError(Exception):
    """Outputs that are wrong whatever the tolerance: another number, shape, type, or whole numbers that differ."""


def compare_outputs(
    sample: Mapping[str, Arrays], outputs: Sequence[Arrays], precision: str = "fp32", names: Sequence[str] = ()
) -> Comparison:
    """Compare the outputs for each input of a sample with their references.

    Every element is judged by its deviation (:mod:`~cross_backend.verify.deviation`); integers and booleans are equal.
    Equal outputs prove nothing where the references are empty, all NaN or infinite, or do not depend on the input.

    Args:
        sample: groups of a sample file: ``expected``, and where they are there ``expected2``, ``scale``, ``rounding``.
        outputs: for ``input``, and for ``input2`` where the sample has one.
        precision: key of :data:`PRECISIONS`.
        names: of the outputs, for the reader.
    """
    tolerance = tolerance_of(precision, _rounding(sample))
    references = [sample["expected"], *([sample["expected2"]] if "expected2" in sample else [])][: len(outputs)]
    found: list[_Found] = []
    try:
        for turn, (expected, got) in enumerate(zip(references, outputs, strict=True)):
            if len(expected) != len(got):
                raise _WrongError(f"returns {len(got)} output(s) instead of {len(expected)}")
            scales = _scales(sample, references)
            which = "" if turn == 0 else " for the second input"
            for index, (want, have) in enumerate(zip(expected, got, strict=True)):
                margin = sample["margin"][index] if "margin" in sample and turn == 0 else None
                found.append(_judge(f"output {index}{which}", want, have, _scale_for(want, scales[index]), margin))
    except _WrongError as error:
        wrong = Comparison(math.nan, math.nan, math.nan, math.nan, tolerance, verdict=False, reason=str(error))
        return _doubted(sample, wrong)
    unproved = _proves_nothing(references, _rounding(sample)) or _unmoved(sample, names)
    noise = _noise(sample, precision)
    mean = allowed_mean(PRECISIONS[precision].mean, noise)
    concluded = _concluded(found, tolerance, mean, unproved, _told(sample), noise)
    return _doubted(sample, concluded)


def _doubted(sample: Mapping[str, Arrays], found: Comparison) -> Comparison:
    """Return a verdict that says no more than the reference is worth."""
    if "doubt" not in sample:
        return found
    doubt = bytes(sample["doubt"][0]).decode(errors="replace")
    return replace(found, verdict=True, reason=None, unproved=f"the reference is in doubt: {doubt}")


def compare_further(sample: Mapping[str, Arrays], one: KnownInput, got: Arrays, precision: str) -> str | None:
    """Return why the outputs for a probe or a step are wrong; None where they are right.

    Each element is judged on its scale in the sample or in this input, the larger one, and by the rounding of both.
    """
    import numpy as np

    first, rule = sample["expected"], PRECISIONS[precision]
    rounding = max(one.rounding, _rounding(sample) or 0.0)
    tolerance = tolerance_of(precision, rounding)
    if len(one.expected) != len(got):
        return f"returns {len(got)} output(s) instead of {len(one.expected)} on {one.name!r}"
    found: list[_Found] = []
    try:
        for index, (want, have) in enumerate(zip(one.expected, got, strict=True)):
            scale = np.zeros(want.shape)
            if kind_of(want) in "fc":
                scale = scale_of(want, first[index] if first[index].shape == want.shape else None)
                for known in (sample.get("scale", ()), one.scale):
                    if known and known[index].shape == want.shape:
                        scale = np.maximum(scale, known[index])
            found.append(_judge(f"output {index} on {one.name!r}", want, have, scale))
    except _WrongError as error:
        return str(error)
    slack = 1.0 if precision == "fp32" else SLACK
    noise = one.narrow.get(precision)
    mean = allowed_mean(slack * rule.mean, noise)
    return _concluded(found, slack * tolerance, mean, None, rounding, noise).reason


def _scales(sample: Mapping[str, Arrays], references: Sequence[Arrays]) -> Arrays:
    """Return each output's scale, from the sample or, where it has none, from its references."""
    if "scale" in sample and len(sample["scale"]) == len(references[0]):
        return sample["scale"]
    second = references[1] if len(references) > 1 else [None] * len(references[0])
    return [
        scale_of(a, b if b is not None and b.shape == a.shape else None)
        for a, b in zip(references[0], second, strict=True)
    ]


def _scale_for(want: np.ndarray[Any, Any], scale: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the scale of an output where it has its shape; else the output's own: the second input's may be larger."""
    return scale if scale.shape == want.shape or kind_of(want) not in "fc" else scale_of(want, None)


def _judge(
    name: str,
    want: np.ndarray[Any, Any],
    got: np.ndarray[Any, Any],
    scale: np.ndarray[Any, Any],
    margin: np.ndarray[Any, Any] | None = None,
) -> _Found:
    import numpy as np

    if want.shape != got.shape:
        raise _WrongError(f"{name} has shape {list(got.shape)} instead of {list(want.shape)}")
    if want.dtype != got.dtype:
        raise _WrongError(f"{name} has type {got.dtype} instead of {want.dtype}")
    if kind_of(want) not in "fc":
        wrong = want != got
        if margin is not None and margin.any():
            wrong &= np.abs(want.astype(np.float64) - got.astype(np.float64)) > margin
        if wrong.any():
            raise _WrongError(f"{name} differs in {int(wrong.sum())} of {want.size} elements")
        return _Found()
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)):
        raise _WrongError(f"{name} has {int((~np.isfinite(got)).sum())} NaN or infinite element(s)")
    if not np.array_equal(want[~finite], got[~finite], equal_nan=True):
        raise _WrongError(f"{name} differs in its NaN or infinite elements")
    wide = np.complex128 if kind_of(want) == "c" else np.float64
    a, b = want[finite].astype(wide), got[finite].astype(wide)
    if not a.size:
        return _Found()
    deviations = deviation(a, b, np.broadcast_to(scale, want.shape)[finite])
    worst = np.flatnonzero(finite)[int(deviations.argmax())]
    place = [int(index) for index in np.unravel_index(worst, want.shape)]
    with np.errstate(over="ignore"):  # wrong outputs may be so large that their squares are infinite
        return _Found(
            float(np.abs(a - b).max()),
            float(deviations.max()),
            f"{name} deviates by %s of its scale at {place}",
            float((deviations * deviations).sum()),
            a.size,
            float((np.abs(a) ** 2).sum()),
            float((np.abs(a - b) ** 2).sum()),
            complex(np.vdot(a, b)),
            float((np.abs(b) ** 2).sum()),
        )


def _proves_nothing(references: Sequence[Arrays], rounding: float | None) -> str | None:
    """Return why equal outputs would prove nothing; None where they prove something."""
    import numpy as np

    outputs = references[0]
    if not any(y.size for y in outputs):
        return "its outputs are empty"
    if not any(kind_of(y) not in "fc" or np.isfinite(y).any() for y in outputs):
        return "its outputs are all NaN or infinite"
    if len(references) > 1 and not any_moved(references[0], references[1], rounding):
        return "its outputs are the same for two different inputs"
    return None


def _unmoved(sample: Mapping[str, Arrays], names: Sequence[str]) -> str | None:
    """Return which outputs are the same for every input though they depend on it; None where there are none."""
    first, rounding = sample["expected"], _rounding(sample)
    others = [sample["expected2"]] if "expected2" in sample else []
    others += [one.expected for kind in (PROBE, STEP, OWN) for one in further_of(kind, sample)]
    if not others or "fixed" not in sample:
        return None
    rounded = tolerance_of("fp32", rounding)
    for index, fixed in enumerate(sample["fixed"][0]):
        if not fixed and first[index].size and not any(moved(first[index], other[index], rounded) for other in others):
            name = f" ({names[index]})" if index < len(names) else ""
            return f"output {index}{name} is the same for every input"
    return None


def _concluded(
    found: Sequence[_Found],
    tolerance: float,
    mean: float,
    unproved: str | None,
    rounding: float | None,
    exact: float | None,
) -> Comparison:
    max_abs = max((one.max_abs for one in found), default=0.0)
    worst = max(found, key=lambda one: one.max_rel, default=_Found())
    max_rel = worst.max_rel
    rms = math.sqrt(sum(one.squares for one in found) / max(sum(one.count for one in found), 1))
    signal, noise = sum(one.signal for one in found), sum(one.noise for one in found)
    norm, dot = sum(one.norm for one in found), abs(sum(one.dot for one in found))
    cosine = dot / math.sqrt(signal * norm) if signal and norm else float(signal == norm)
    reason = None
    if not max_rel <= tolerance:
        allowed = f"{tolerance:.1g} is allowed"
        if rounding:
            allowed = f"{max_rel / rounding:.2g} × the unavoidable rounding, {tolerance / rounding:.2g} × is allowed"
        reason = f"{worst.place % f'{max_rel:.2g}'}; {allowed}"
    elif exact and math.isfinite(exact) and mean < rms <= GAIN * exact:
        unproved = f"exact rounding to 16 bits changes the outputs by {exact:.2g} of their scale, root mean square"
    elif not rms <= mean:
        reason = f"outputs deviate by {rms:.2g} of their scale, root mean square; {mean:.2g} is allowed"
        if exact and math.isfinite(exact):
            reason += f" ({rms / exact:.2g} × and {mean / exact:.2g} × exact rounding to 16 bits)"
    return Comparison(max_abs, max_rel, decibels(signal, noise), cosine, tolerance, reason is None, reason, unproved)
