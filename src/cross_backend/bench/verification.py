"""Verification in a worker: the sample's inputs, then its probes or the calls that follow on the same state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cross_backend.errors import RunError, failing_as
from cross_backend.measure.clock import timed
from cross_backend.names.precisions import CALIBRATED
from cross_backend.program.state import STATE
from cross_backend.records import Comparison
from cross_backend.tensors import TensorSpec, kind_of, to_numpy
from cross_backend.verify.compare import compare_further, compare_outputs, says_nothing
from cross_backend.verify.further import OWN, PROBE, STEP, KnownInput, further_of
from cross_backend.verify.probes import is_within

SHARE, LEAST_S = 0.5, 0.5
"""Probes that reach nothing more run only while all take less than this share of the sample's time, or so long."""
NARROW_RANGE = 2.0
"""How much larger than the sample's a probe's values may be for 16-bit arithmetic."""


@dataclass(frozen=True)
class Judged:
    """What an artifact gave for the sample, and what that is worth."""

    comparison: Comparison
    outputs: list[Any]
    """Of the first input, NumPy arrays."""
    first_call_ns: int | None
    """Duration of the first call of the session; None where it had been called before."""


class BoundTo(Protocol):
    """What has specifications, and binds tensors."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """Of the program."""

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        """Of the program."""

    def bind(self, inputs: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        """Return the call on these inputs."""


class Verifiable(Protocol):
    """An artifact that is open, in this process or elsewhere; see ``OpenArtifact``."""

    was_called: bool

    @property
    def sample(self) -> Mapping[str, Any]:
        """Groups of tensors."""

    @property
    def run(self) -> Callable[[], Sequence[Any]]:
        """The bound call."""

    @property
    def session(self) -> BoundTo:
        """The open session."""

    def bind(self, sample: Mapping[str, Any]) -> None:
        """Bind other inputs."""

    def reset(self) -> None:
        """Return to the program's initial state."""


def verified(one: Verifiable, precision: str) -> Judged:
    """Run an open artifact on its sample, probes and sequence of calls, and compare with the reference.

    Args:
        one: it is left with the sample's first input bound, and with its initial state.
        precision: of the target.

    Raises:
        RunError: the target fails on an input.
    """
    is_first, has_state = not one.was_called, STATE in one.sample
    if has_state and not is_first:
        one.reset()
    run, started = one.run, time.perf_counter()
    with failing_as(RunError, "it failed"):
        produced, ns = timed(run)
    outputs = [[to_numpy(y).copy() for y in produced]]
    if "input2" in one.sample:
        outputs.append(_called(one, one.sample["input2"], "it failed"))
    took_s = time.perf_counter() - started
    names = [spec.name for spec in one.session.outputs]
    comparison = compare_outputs(one.sample, outputs, precision, names)
    if comparison.verdict:
        comparison = _further(one, comparison, precision, took_s)
    if has_state and comparison.verdict:
        comparison = _again(one, comparison, precision, names)
    if has_state:
        one.reset()
    one.bind(one.sample)
    return Judged(comparison, outputs[0], ns if is_first else None)


def _further(one: Verifiable, comparison: Comparison, precision: str, sample_s: float) -> Comparison:
    """Return a right verdict on the sample, joined with those on the steps after it and on its probes."""
    for step in further_of(STEP, one.sample):
        reason = compare_further(one.sample, step, outputs_on(one, step), precision)
        if reason is not None:
            return replace(comparison, verdict=False, reason=f"{reason}: it loses the program's state")
    for own in further_of(OWN, one.sample):
        reason = compare_further(one.sample, own, outputs_on(one, own), precision)
        if reason is not None:
            return replace(comparison, verdict=False, reason=reason)
    started, run, unjudged = time.perf_counter(), 0, []
    for probe in further_of(PROBE, one.sample):
        is_late = run and (time.perf_counter() - started) * (run + 1) / run > max(SHARE * sample_s, LEAST_S)
        if is_late and not probe.reaches:
            continue
        if not is_judged(one.session.inputs, one.sample, probe, precision):
            continue
        nothing = says_nothing(probe, precision)
        if nothing is not None:
            unjudged.append(f"{probe.name}: {nothing}")
            continue
        reason = compare_further(one.sample, probe, outputs_on(one, probe), precision)
        run += 1
        if reason is not None:
            return replace(comparison, verdict=False, reason=reason)
    return replace(comparison, probes=run, unjudged=tuple(unjudged))


def _again(one: Verifiable, comparison: Comparison, precision: str, names: Sequence[str]) -> Comparison:
    """Return a right verdict on a sequence, joined with that on its first calls once more, after a reset.

    What a second sequence computes must not depend on the first one.
    """
    one.reset()
    outputs = [_called(one, one.sample["input"], "it failed after reset()")]
    reason = compare_outputs(one.sample, outputs, precision, names).reason
    if reason is None and (step := next(further_of(STEP, one.sample), None)) is not None:
        reason = compare_further(one.sample, step, outputs_on(one, step), precision)
    if reason is not None:
        reason = f"{reason}, in a second sequence after reset(): its state survives the reset"
        return replace(comparison, verdict=False, reason=reason)
    return comparison


def is_judged(specs: Sequence[TensorSpec], sample: Mapping[str, Any], probe: KnownInput, precision: str) -> bool:
    """Whether a right target of this precision must be right on a probe: quantisers saw the sample's range only."""
    if not all(spec.accepts(x) for spec, x in zip(specs, probe.inputs, strict=True)):
        return False
    if precision == "fp32":
        return True
    if precision in CALIBRATED:
        return is_within(probe.inputs, sample["input"])
    return _largest(probe.inputs) <= NARROW_RANGE * _largest(sample["input"])


def _largest(arrays: Sequence[Any]) -> float:
    return max((float(abs(x).max()) for x in arrays if kind_of(x) == "f" and x.size), default=0.0)


def outputs_on(one: Verifiable, given: KnownInput) -> list[Any]:
    """Return the outputs for a probe or a step.

    Raises:
        RunError: the target fails on it.
    """
    return _called(one, given.inputs, f"it failed on {given.name!r}")


def _called(one: Verifiable, inputs: Sequence[Any], failed: str) -> list[Any]:
    with failing_as(RunError, failed):
        return [to_numpy(y).copy() for y in one.session.bind(inputs)()]
