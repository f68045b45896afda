"""Graphing: an artifact's operations as a picture: runs that went to one place are boxes, which open by a click."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from cross_backend.exporting.operations import BESIDE, INSIDE, LEFT, Operation
from cross_backend.report.charts.svg import escape, number, shortened
from cross_backend.web.layering import HEIGHT, WIDTH, laid_out

MOST_BOXES = 48
"""Boxes of a picture in which nothing is opened."""
WORDS = {INSIDE: "delegated", LEFT: "not delegated", BESIDE: "delegated; another operation of its source line was not"}
"""How places are called."""
EDGE = 8.0


def _said(found: Sequence[Operation]) -> str:
    return WORDS[found[0].place]


def _label(text: str, _found: Sequence[Operation]) -> str:
    return text


@dataclass(frozen=True)
class Wording:
    """What a graph says of its boxes; places are the classes of the boxes."""

    said: Callable[[Sequence[Operation]], str] = _said
    """Returns what the name for screen readers says of the operations of a box."""
    label: Callable[[str, Sequence[Operation]], str] = _label
    """Returns the text in a box."""
    address: str = "?"
    """Of the page: what its links begin with."""
    opens: Callable[[Sequence[Operation]], bool] = lambda _found: False
    """Whether a run is drawn operation by operation, whatever is opened."""


PLACED = Wording()
"""Where each operation went."""


@dataclass(frozen=True)
class Stretch:
    """Operations one after the other that went to one place, of one part of the model."""

    number: int
    title: str
    place: str
    operations: tuple[Operation, ...]
    is_open: bool = False

    @property
    def name(self) -> str:
        """Name of the closed box."""
        return f"{self.title} · {len(self.operations)}"


@dataclass(frozen=True)
class Graph:
    """What the page of an artifact draws."""

    picture: Markup
    runs: tuple[Stretch, ...]
    is_folded: bool
    """Whether some boxes hold several operations."""
    operations: tuple[Operation, ...]


def graph(found: Sequence[Operation], opened: Iterable[int] | None, wording: Wording = PLACED) -> Graph | None:
    """Draw a program; None where nothing is known of it.

    Args:
        found: its operations.
        opened: numbers of the runs that are drawn operation by operation; all where None.
        wording: what the boxes say.
    """
    if not found:
        return None
    numbers = None if opened is None else set(opened)
    runs = tuple(
        Stretch(at, title, place, rows, numbers is None or at in numbers or len(rows) == 1 or wording.opens(rows))
        for at, (title, place, rows) in enumerate(_runs(found))
    )
    return Graph(_picture(runs, wording), runs, len(runs) < len(found), tuple(found))


def _runs(found: Sequence[Operation]) -> list[tuple[str, str, tuple[Operation, ...]]]:
    """Join what follows each other in one place and part; parts are as fine as the picture allows.

    Joined are neighbours in the order in which they run, so the boxes have no circle among them.
    """
    best: list[tuple[str, str, tuple[Operation, ...]]] = []
    deepest = max(one.module.count(".") + 1 for one in found)
    for depth in range(deepest, -1, -1):
        groups = groupby(found, lambda one: (".".join(one.module.split(".")[:depth]), one.place))  # noqa: B023
        best = [(_title(many := tuple(rows), depth), place, many) for (_, place), rows in groups]
        if len(best) <= MOST_BOXES:
            break
    return best


def _title(rows: Sequence[Operation], depth: int) -> str:
    """Return the part of the model that all are in; from where to where, if that says more."""
    parts = [one.module.split(".") for one in rows]
    common = [names[0] for names in zip(*parts, strict=False) if len(set(names)) == 1]
    ends = [".".join(part[: depth + 1]) for part in (parts[0], parts[-1])]
    if len(common) <= depth and ends[0] != ends[1] and all(ends):
        same = "".join(f"{name}." for name in common)
        return f"{ends[0]} … {ends[1].removeprefix(same)}"
    return ".".join(common) or "the model"


def _picture(runs: Sequence[Stretch], wording: Wording) -> Markup:
    boxes: list[tuple[Stretch, Operation | None]] = []
    box_of: dict[int, int] = {}
    for run in runs:
        for one in run.operations:
            if run.is_open or one is run.operations[0]:
                boxes.append((run, one if run.is_open else None))
            box_of[one.index] = len(boxes) - 1
    feeds_on: list[list[int]] = [[] for _ in boxes]
    for run in runs:
        for one in run.operations:
            to = box_of[one.index]
            feeds_on[to] += [at for at in map(box_of.__getitem__, one.feeds_on) if at != to and at not in feeds_on[to]]
    layout = laid_out(feeds_on)
    parts = [f'<path class="arrow" d="{_curve(points)}"/>' for points in layout.arrows]
    open_now = [run.number for run in runs if run.is_open and len(run.operations) > 1]
    for (x, y), (run, single) in zip(layout.boxes, boxes, strict=True):
        parts.append(_box(x, y, run, single, open_now, wording))
    width, height = number(layout.width + 2 * EDGE), number(layout.height + 2 * EDGE)
    size = f'viewBox="{number(-EDGE)} {number(-EDGE)} {width} {height}" width="{width}" height="{height}"'
    head = f'<svg class="graph" role="group" aria-label="Operations by place" {size}>'
    return Markup("".join([head, *parts, "</svg>"]))  # noqa: S704  every part is a number, a word of ours, or escaped


def _box(x: float, y: float, run: Stretch, one: Operation | None, open_now: Sequence[int], wording: Wording) -> str:
    if one is None:
        text = wording.label(run.name, run.operations)
        what = f"{text} operations, {wording.said(run.operations)}: open"
        wanted = ",".join(map(str, sorted({*open_now, run.number})))
        link, place = f'href="{escape(wording.address)}open={wanted}#graph"', run.place
    else:
        text = wording.label(one.name, [one])
        what = f"{text}, in {run.title}, {wording.said([one])}"  # begins as what is seen, for those who speak to it
        link, place = f'href="#op-{one.index}" data-op="{one.index}"', one.place
    kind = f"{place} run" if one is None else place
    rect = f'<rect x="{number(x)}" y="{number(y)}" width="{number(WIDTH)}" height="{number(HEIGHT)}" rx="6"/>'
    words = (
        f'<text x="{number(x + WIDTH / 2)}" y="{number(y + HEIGHT / 2 + 4)}" text-anchor="middle">'
        f"{escape(shortened(text, WIDTH - 16))}</text>"
    )
    return f'<a {link} class="{kind}" aria-label="{escape(what)}"><title>{escape(what)}</title>{rect}{words}</a>'


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return an arrow's way: straight through layers, bent between them."""
    (x, y), *further = points
    words = [f"M{number(x)} {number(y)}"]
    for at, (to_x, to_y) in enumerate(further):
        middle = number((y + to_y) / 2)
        if at % 2 == 0:  # between two layers
            words.append(f"C{number(x)} {middle} {number(to_x)} {middle} {number(to_x)} {number(to_y)}")
        else:
            words.append(f"L{number(to_x)} {number(to_y)}")
        x, y = to_x, to_y
    return "".join(words)
