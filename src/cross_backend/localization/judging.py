"""Judging: the inputs of a sample on which outputs can be wrong, and the project's own verdict on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cross_backend.bench.verification import is_judged
from cross_backend.tensors import TensorSpec
from cross_backend.verify.compare import compare_further, compare_outputs, says_nothing
from cross_backend.verify.further import OWN, PROBE, STEP, KnownInput, further_of

SAMPLE = "the sample input"
SECOND = "the second input of the sample"


@dataclass(frozen=True)
class Case:
    """One input, and by what outputs for it are judged."""

    sample: Mapping[str, Any]
    known: KnownInput
    precision: str

    @property
    def name(self) -> str:
        """Name of the input, for the reader."""
        return self.known.name

    def reason(self, outputs: Sequence[Any]) -> str | None:
        """Return why outputs are wrong; None where they are right."""
        if self.name == SAMPLE:
            sample = {**self.sample, "expected": self.known.expected}
            return compare_outputs(sample, [outputs], self.precision).reason
        return compare_further(self.sample, self.known, outputs, self.precision)

    def against(self, outputs: Sequence[Any]) -> Case:
        """Return the case in which these outputs are right."""
        return replace(self, known=replace(self.known, expected=outputs))


def cases_of(
    sample: Mapping[str, Any], specs: Sequence[TensorSpec], precision: str, *, every: bool = False
) -> Iterator[Case]:
    """Yield the inputs on which a target of a precision is judged, in the order of verification.

    Further calls of a program with state are left out: see :func:`steps_of`. ``every`` yields the probes, too, that
    say nothing of the precision.
    """
    yield Case(sample, KnownInput(SAMPLE, sample["input"], sample["expected"]), precision)
    if "input2" in sample:
        yield Case(sample, KnownInput(SECOND, sample["input2"], sample["expected2"]), precision)
    for own in further_of(OWN, sample):
        yield Case(sample, own, precision)
    for probe in further_of(PROBE, sample):
        if every or (is_judged(specs, sample, probe, precision) and says_nothing(probe, precision) is None):
            yield Case(sample, probe, precision)


def steps_of(sample: Mapping[str, Any], precision: str) -> list[Case]:
    """Return the calls that follow the sample's on the same state."""
    return [Case(sample, step, precision) for step in further_of(STEP, sample)]
