"""Erring: a localization as a graph: operators coloured by their error, the first that parts marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cross_backend.exporting.operations import Operation
from cross_backend.localization.found import Culprit, Localized, NodeError
from cross_backend.report.localized import error_text
from cross_backend.web.graphing import MOST_BOXES, Graph, Wording, graph

UNSEEN, ROUNDING, SMALL, LARGE, BROKEN = "unseen", "rounding", "small", "large", "broken"
SMALL_BELOW = 0.01
"""Share of an element's scale."""
LEVELS = {
    ROUNDING: "rounding only",
    SMALL: "error below 1 % of the scale",
    LARGE: "error of 1 % of the scale or more",
    BROKEN: "not finite",
    UNSEEN: "the backend did not show it",
}
"""Class of a box → what its colour means."""
FIRST, WRONG = "first", "wrong"
MARKS = {FIRST: "▶", WRONG: "✖"}
"""Further class of a box → its mark."""
MEANINGS = {FIRST: "the first that differs", WRONG: "part of what is wrong"}


@dataclass(frozen=True)
class ErringRow:
    """One operator in the table beside the graph."""

    index: int
    name: str
    operator: str
    module: str
    error: str
    local: str
    rounding: str
    kind: str
    """``local``, ``inherited`` or nothing, and whether it is marked."""
    line: str | None


@dataclass(frozen=True)
class Erring:
    """What the page of a localization shows of the graph."""

    graph: Graph
    rows: tuple[ErringRow, ...]
    levels: tuple[tuple[str, str], ...]
    """Classes that occur, with their meanings."""
    can_open: bool
    """Whether boxes open and close; small programs are always drawn whole."""
    marks: tuple[tuple[str, str], ...]
    """Marks that occur, with their meanings."""


def erring(found: Localized, opened: Iterable[int] | None, address: str = "?") -> Erring | None:
    """Draw a localization; None where it has no graph.

    Args:
        found: what was found.
        opened: as of :func:`~cross_backend.web.graphing.graph`; small programs are always drawn whole.
        address: of the page: what its links begin with.
    """
    if not found.graph:
        return None
    by_value = {row.node: row for row in found.nodes}
    worst = [_worst([by_value[name] for name in step.values if name in by_value]) for step in found.graph]
    marks = _marks(found)
    operations = tuple(
        Operation(
            at,
            step.node,
            step.operator,
            step.module,
            step.line or "",
            step.feeds_on,
            " ".join(filter(None, (_level(worst[at]), marks.get(at, "")))),
        )
        for at, step in enumerate(found.graph)
    )

    def largest(some: Sequence[Operation]) -> NodeError | None:
        return _worst([row for one in some if (row := worst[one.index]) is not None])

    def said(some: Sequence[Operation]) -> str:
        row = largest(some)
        told = [MEANINGS[name] for name in dict.fromkeys(marks.get(one.index, "") for one in some) if name]
        return ", ".join([LEVELS[_level(row)], *told])

    def label(text: str, some: Sequence[Operation]) -> str:
        row, names = largest(some), {marks.get(one.index, "") for one in some}
        mark = next((MARKS[name] for name in MARKS if name in names), "")
        return " ".join(filter(None, (mark, text, "" if row is None else f"· {error_text(row.error)}")))

    wording = Wording(said, label, address, lambda some: any(one.index in marks for one in some))
    drawn = graph(operations, None if len(operations) <= MOST_BOXES else opened, wording)
    assert drawn is not None, "there are operations"
    rows = tuple(_row(one, worst[one.index], marks.get(one.index, "")) for one in operations)
    there = {name for one in operations for name in one.place.split()}
    return Erring(
        drawn,
        rows,
        tuple((name, text) for name, text in LEVELS.items() if name in there),
        drawn.is_folded and len(operations) > MOST_BOXES,
        tuple((name, f"{MARKS[name]} {text}") for name, text in MEANINGS.items() if name in there),
    )


def _marks(found: Localized) -> dict[int, str]:
    """Return place in the graph → mark, of the first operator that differs and of what is wrong."""
    wrong = {one.node for one in found.operators} if found.culprit is not Culprit.NOTHING else set()
    parting = {row.node for row in found.nodes if row.parts}
    marks = {at: WRONG for at, step in enumerate(found.graph) if wrong & set(step.values)}
    first = next((at for at, step in enumerate(found.graph) if parting & set(step.values)), min(marks, default=None))
    return marks if first is None else {**marks, first: FIRST}


def _worst(rows: Sequence[NodeError]) -> NodeError | None:
    return max(rows, key=lambda row: row.error, default=None)


def _level(row: NodeError | None) -> str:
    if row is None:
        return UNSEEN
    if not math.isfinite(row.error):
        return BROKEN
    if not row.kind:
        return ROUNDING
    return SMALL if row.error < SMALL_BELOW else LARGE


def _row(one: Operation, row: NodeError | None, mark: str) -> ErringRow:
    error, local, rounding = ("",) * 3 if row is None else map(error_text, (row.error, row.local, row.rounding))
    told = [row.kind if row is not None else LEVELS[UNSEEN], MEANINGS.get(mark, "")]
    kind = ", ".join(filter(None, told))
    return ErringRow(one.index, one.name, one.operator, one.module, error, local, rounding, kind, one.line or None)
