"""Found: what a search for the operator that went wrong ends with; no torch, no NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from cross_backend.serialization import from_json

INHERITED = 100
"""Times the rounding of a value: an error beyond it came with the operator's inputs."""


class Culprit(StrEnum):
    """What is wrong."""

    OPERATOR = "operator"
    """One operator, alone with its real inputs."""
    GROUP = "group"
    """Operators that are wrong together and right alone: the fusion across them."""
    UNSURE = "unsure"
    """The boundary is known; neither the operator nor its neighbours are wrong alone."""
    NOTHING = "nothing"
    """The two agree."""


@dataclass(frozen=True)
class Suspect:
    """An operator of the program."""

    node: str
    """Its name in the program."""
    operator: str
    """``aten.conv2d.default``, or the type of an ONNX node."""
    line: str | None
    """Line of Python that made it; None where that is not known, and for ONNX files."""
    inputs: tuple[str, ...]
    """Element types and shapes: ``float32[1, 3, 8, 8]``."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, str]
    """Arguments that are no tensors, by name."""


@dataclass(frozen=True)
class NodeError:
    """How far one value of the program is off on the backend."""

    node: str
    operator: str
    line: str | None
    error: float
    """Largest deviation of an element from the reference; infinite for a NaN that should not be there."""
    local: float
    """The same against the reference on the backend's own inputs: the part that this operator itself adds."""
    rounding: float
    """What float32's rounding changes up to here: unavoidable."""
    parts: bool
    """Whether the local error is more than rounding explains."""

    @property
    def kind(self) -> str:
        """``local``: its own; ``inherited``: of its inputs; empty where rounding explains it."""
        if self.parts:
            return "local"
        return "inherited" if self.error > INHERITED * self.rounding else ""


@dataclass(frozen=True)
class GraphStep:
    """One operator in the graph of the program."""

    node: str
    operator: str
    module: str
    """Path of the module that called it: ``features.4.block.0``; empty at the top, and for ONNX files."""
    line: str | None
    values: tuple[str, ...]
    """What it makes: names of :class:`NodeError`."""
    feeds_on: tuple[int, ...]
    """Places in the graph of the operators whose values it takes."""


@dataclass(frozen=True)
class Trial:
    """One part of the program that was lowered."""

    what: str
    """``operators 1 to 12``, ``conv2d alone``."""
    target: str
    nodes: tuple[str, ...]
    outcome: str
    """``right``, ``wrong``, ``crash`` or ``unknown``."""
    reason: str | None
    cached: bool


@dataclass(frozen=True)
class BugShape:
    """What the difference looks like, by a name of the field."""

    name: str
    evidence: str
    """What in the numbers shows it, one clause."""


ESTIMATED = "≈ is an estimate: the backend did not show this value, so the reference rounded it to 8 bits."


@dataclass(frozen=True)
class LayerCost:
    """What the rounding of one operator costs a quantised program."""

    node: str
    operator: str
    line: str | None
    sqnr_db: float
    """Of the operator's own values on the backend's own inputs, dB."""
    output_sqnr_db: float
    """Of the program's outputs, were this operator's error the only one, dB."""
    is_estimated: bool = False
    """Whether the reference rounded its values to 8 bits, as the backend did not show what it computes."""

    @property
    def outputs_text(self) -> str:
        """What a table shows of the outputs' SQNR."""
        return self._text(self.output_sqnr_db)

    @property
    def own_text(self) -> str:
        """What a table shows of its values' SQNR."""
        return self._text(self.sqnr_db)

    def _text(self, value: float) -> str:
        return f"{'≈' if self.is_estimated else ''}{value:.1f}"


@dataclass(frozen=True)
class KeptOut:
    """The program without some operators on the backend."""

    nodes: tuple[str, ...]
    elsewhere: str
    """Target that computes them instead."""
    right: bool
    reason: str | None
    """Why it is wrong all the same."""
    whole_ms: float
    """Median call of the whole program on the backend."""
    parts_ms: float
    """Sum of the medians of the parts; without what copying between them takes."""
    count: int
    """Parts that run one after the other."""
    drop: float | None = None
    """Share of inputs with another likeliest class than in float32, or the relative error; None where not asked."""
    drop_before: float | None = None
    """The same of the whole program on the backend."""
    inputs: int = 0
    """Calibration inputs by which the drop was judged."""
    layers: tuple[LayerCost, ...] = ()
    """What rounding the operators that are kept in float costs."""

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document; numbers that are not finite become texts."""
        row: dict[str, Any] = _plain(asdict(self))
        return row


@dataclass(frozen=True)
class Localized:
    """The smallest part of a program where a backend and its reference differ."""

    workload: str
    target: str
    against: str
    """The other target, or who gave the reference."""
    culprit: Culprit
    crash: bool
    """Whether the backend fails on the part rather than computing it wrongly."""
    reason: str | None
    """What is wrong with the whole program, in one clause; None where nothing is."""
    input_name: str | None
    """Input on which it is wrong."""
    wrong_runs: int
    """Of :attr:`runs` on that input."""
    runs: int
    says: str
    """What was found, in one sentence."""
    operators: tuple[Suspect, ...] = ()
    """The operator, or those of the group, in order."""
    shapes: tuple[BugShape, ...] = ()
    advice: tuple[str, ...] = ()
    nodes: tuple[NodeError, ...] = ()
    """One row a value along the graph; empty where the backend does not show them."""
    graph: tuple[GraphStep, ...] = ()
    """All operators, in the order in which they run; empty where nothing is wrong."""
    layers: tuple[LayerCost, ...] = ()
    """Of a calibrated target: one row an operator, the one that costs the outputs most first."""
    trials: tuple[Trial, ...] = ()
    count: int = 0
    """Operators of the program."""
    lowerings: int = 0
    """Parts that were lowered to :attr:`target`, beside the whole program."""
    bound: int = 0
    """Most lowerings that the search may take: ⌈log₂ count⌉ + 3."""
    seconds: float = 0.0
    got: tuple[float, ...] = ()
    """Values of the elements of the part that deviate most, first output first."""
    expected: tuple[float, ...] = field(default=())

    @property
    def is_sure(self) -> bool:
        """Whether the part was lowered alone and is wrong alone, in every run."""
        return self.culprit in {Culprit.OPERATOR, Culprit.GROUP} and self.wrong_runs == self.runs

    @property
    def summary(self) -> str:
        """What was found, the operator and the line of Python, in one line."""
        if not self.operators:
            return self.says
        last = self.operators[-1]
        return f"{self.says} {last.operator}{f', {last.line}' if last.line else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document; numbers that are not finite become texts."""
        row: dict[str, Any] = _plain(asdict(self))
        return {"schema": 1, **row, "sure": self.is_sure}

    @classmethod
    def from_json(cls, document: Any) -> Localized:
        """Read what :meth:`to_json` returned.

        Raises:
            Exception: it is no such document.
        """
        return from_json(cls, document)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
