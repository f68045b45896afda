"""Layering: where the boxes of a graph stand, from top to bottom, and how its arrows run; plain numbers, no markup.

The classic way (Sugiyama, Tagawa, Toda 1981): layers by the longest path, points on the way of long arrows, an order
in each layer by the mean place of the neighbours, then places that are as near to the neighbours as room allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 208.0, 34.0
"""Of a box."""
LANE = 18.0
"""Width of an arrow that passes by."""
GAP, DOWN = 18.0, 26.0
"""Between boxes beside and below each other."""
SWEEPS = 6


@dataclass(frozen=True)
class Layout:
    """Where everything stands."""

    width: float
    height: float
    boxes: tuple[tuple[float, float], ...]
    """Upper left corner of each box."""
    arrows: tuple[tuple[tuple[float, float], ...], ...]
    """Points of each arrow, from box to box."""


def laid_out(feeds_on: Sequence[Sequence[int]]) -> Layout:
    """Place boxes, each of which feeds on earlier ones only."""
    layer: list[int] = []
    for before in feeds_on:
        layer.append(1 + max((layer[one] for one in before), default=-1))
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box, at in enumerate(layer):
        rows[at].append(box)
    above, below = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    ways, points = [], len(layer)
    for box, before in enumerate(feeds_on):
        for start in before:
            way = [start]
            for at in range(layer[start] + 1, layer[box]):
                rows[at].append(points)
                way.append(points)
                points += 1
            way.append(box)
            ways.append(way)
            for one, two in pairwise(way):
                below[one].append(two)
                above[two].append(one)
    wide = [WIDTH if one < len(layer) else LANE for one in range(points)]
    x = _across(rows, above, below, wide)
    left = min((x[one] - wide[one] / 2 for row in rows for one in row), default=0.0)
    right = max((x[one] + wide[one] / 2 for row in rows for one in row), default=0.0)
    depth = {one: at * (HEIGHT + DOWN) for at, row in enumerate(rows) for one in row}
    boxes = tuple((x[one] - wide[one] / 2 - left, depth[one]) for one in range(len(layer)))
    arrows = []
    for first, *between, last in ways:
        inner = [(x[one] - left, depth[one] + y) for one in between for y in (0.0, HEIGHT)]
        arrows.append(((x[first] - left, depth[first] + HEIGHT), *inner, (x[last] - left, depth[last])))
    return Layout(right - left, len(rows) * (HEIGHT + DOWN) - DOWN if rows else 0.0, boxes, tuple(arrows))


def _across(
    rows: Sequence[list[int]], above: Mapping[int, list[int]], below: Mapping[int, list[int]], wide: Sequence[float]
) -> list[float]:
    """Return the middle of everything."""
    x = [0.0] * len(wide)
    for row in rows:
        _pack(row, [0.0] * len(row), x, wide)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for row in rows if down else reversed(rows):
            wanted = {one: _mean([x[two] for two in near.get(one, ())], x[one]) for one in row}
            if sweep < SWEEPS - 2:
                row.sort(key=wanted.__getitem__)
            _pack(row, [wanted[one] for one in row], x, wide)
    return x


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _pack(row: Sequence[int], wanted: Sequence[float], x: list[float], wide: Sequence[float]) -> None:
    """Put a row as near to what is wanted as its order and room allow: apart first, then all moved together."""
    for at, one in enumerate(row):
        least = x[row[at - 1]] + (wide[row[at - 1]] + wide[one]) / 2 + GAP if at else wanted[at]
        x[one] = max(wanted[at], least)
    off = _mean([x[one] - want for one, want in zip(row, wanted, strict=True)], 0.0)
    for one in row:
        x[one] -= off
