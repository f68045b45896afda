"""Placing: an artifact's placement as a picture and rows: what is delegated, what is not, why, and by which line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cross_backend.placement import Operators
from cross_backend.report.charts.svg import Drawing
from cross_backend.report.placement import facts
from cross_backend.web.catalogue import Choice

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 720.0, 64.0
GAP = 1.0
INSIDE, LEFT = "fill s2", "h1"
"""Classes of the style sheet: plain green is delegated, hatched orange is not."""


@dataclass(frozen=True)
class Placed:
    """What the page of an artifact shows."""

    facts: tuple[tuple[str, str], ...]
    bar: Markup | None
    """One block for each kind of operator, as wide as it is frequent; None where nothing is known."""
    inside: tuple[Operators, ...]
    left: tuple[Operators, ...]


def placed(choice: Choice) -> Placed | None:
    """Return what is shown of a choice; None where it was not exported."""
    if choice.artifact is None:
        return None
    placement = choice.artifact.placement
    rows = [(row, INSIDE) for row in placement.inside] + [(row, LEFT) for row in placement.left]
    return Placed(tuple(facts(placement)), _bar(rows), placement.inside, placement.left)


def _bar(rows: list[tuple[Operators, str]]) -> Markup | None:
    total = sum(row.count for row, _ in rows)
    if not total:
        return None
    drawing = Drawing("Operators by place", "Plain: delegated. Hatched: not delegated.", WIDTH, HEIGHT)
    x = 0.0
    for row, kind in rows:
        width = WIDTH * row.count / total
        where = "delegated" if kind == INSIDE else f"not delegated: {row.why or 'no reason is known'}"
        drawing.rect(x, 0, max(width - GAP, 0.5), HEIGHT, f"segment {kind}", f"{row.name} × {row.count}, {where}")
        x += width
    return drawing.markup()
