"""Further verification in a worker: probes and sequences of calls, after the sample's outputs were right."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cross_backend.bench.open_artifact import OpenArtifact
from cross_backend.errors import RunError, failing_as
from cross_backend.records import Comparison
from cross_backend.tensors import to_numpy
from cross_backend.verify.compare import compare_further
from cross_backend.verify.further import PROBE, STEP, KnownInput, further_of
from cross_backend.verify.probes import is_within

SHARE, LEAST_S = 0.5, 0.05
"""KnownInput probes begin only while all have taken less than this share of the sample's time, or so many seconds."""
NARROW_RANGE = 2.0
"""How much larger than the sample's a probe's values may be for 16-bit arithmetic."""


def verified(one: OpenArtifact, comparison: Comparison, precision: str, sample_s: float) -> Comparison:
    """Return the verdict on the sample, joined with those on its probes and on the calls after it.

    Args:
        one: its last call was on the sample's first input where the program has state.
        comparison: the sample's verdict, which is right.
        precision: of the target.
        sample_s: seconds that the sample's calls took.

    Raises:
        RunError: the target fails on one.
    """
    for step in further_of(STEP, one.sample):
        reason = compare_further(one.sample, step, _outputs(one, step), precision)
        if reason is not None:
            return replace(comparison, verdict=False, reason=f"{reason}: it loses the program's state")
    started, run = time.perf_counter(), 0
    for probe in further_of(PROBE, one.sample):
        if run and time.perf_counter() - started > max(SHARE * sample_s, LEAST_S):
            break
        if not is_judged(one, probe, precision):
            continue
        reason = compare_further(one.sample, probe, _outputs(one, probe), precision)
        run += 1
        if reason is not None:
            return replace(comparison, verdict=False, reason=reason)
    return replace(comparison, probes=run)


def is_judged(one: OpenArtifact, probe: KnownInput, precision: str) -> bool:
    """Whether a right target of this precision must be right on a probe: quantisers saw the sample's range only."""
    if not all(spec.accepts(x) for spec, x in zip(one.session.inputs, probe.inputs, strict=True)):
        return False
    if precision == "fp32":
        return True
    if precision == "int8":
        return is_within(probe.inputs, one.sample["input"])
    return _largest(probe.inputs) <= NARROW_RANGE * _largest(one.sample["input"])


def _largest(arrays: Sequence[Any]) -> float:
    return max((float(abs(x).max()) for x in arrays if x.dtype.kind == "f" and x.size), default=0.0)


def _outputs(one: OpenArtifact, given: KnownInput) -> list[Any]:
    with failing_as(RunError, f"it failed on {given.name!r}"):
        return [to_numpy(y).copy() for y in one.session.bind(given.inputs)()]
