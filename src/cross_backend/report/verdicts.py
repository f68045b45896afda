"""Verdicts: what to ship and why, what was told apart, and from what size on a difference would surely be found."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.records import Panel, Result
from cross_backend.report import figures, tables

SMALLER = 1.1
"""Files are told apart by size where one is larger than the smallest by more than this factor."""


def ship(panel: Panel) -> str:
    """Say which target to ship and why, with numbers."""
    ranked = panel.ranked
    first = [result for result in ranked if result.rank == 1]
    if not first:
        return "Ship none of these: no target was both proved right and measured."
    if len(first) > 1:
        return _among_equals(first)
    took = _took(first[0])
    if len(ranked) == 1:
        return f"Ship {first[0].title}, because it alone was proved right and measured here: {took}."
    return f"Ship {first[0].title}, because it is the fastest that is right: {took}."


def _among_equals(first: Sequence[Result]) -> str:
    """Choose between targets that share the first rank: the smaller file, then the better coverage, else any."""
    shared = f"{listed(first)} share the first rank"
    left, why = list(first), ""
    sizes = [result.size_bytes for result in left]
    if all(sizes):
        smallest = min(size for size in sizes if size)
        near = [result for result in left if (result.size_bytes or 0) <= SMALLER * smallest]
        if len(near) < len(left):
            others = min(result.size_bytes or 0 for result in left if result not in near)
            left, why = near, f"the smallest file ({tables.size(smallest)}, the next {tables.size(others)})"
    if len(left) > 1:
        covered = [_coverage(result) for result in left]
        best = [result for result, coverage in zip(left, covered, strict=True) if coverage == max(covered)]
        if len(best) < len(left):
            others_cover = max(coverage for coverage in covered if coverage < max(covered))
            texts = f"{tables.percent(max(covered))}, the next {tables.percent(others_cover)}"
            left, why = best, f"{why + ' and ' if why else ''}the best coverage ({texts})"
    if len(left) > 1:
        these = f", which have {why}" if why else ""
        return f"Ship {listed(left, 'or')}{these}: {shared}, and nothing else decides."
    return f"Ship {left[0].title}, because it has {why}: {shared} at {_took(left[0])}."


def _coverage(result: Result) -> float:
    return result.placement.coverage or 0.0 if result.placement else 0.0


def _took(result: Result) -> str:
    assert result.latency_ms is not None, "what is ranked was measured"
    return f"{figures.duration(result.latency_ms.value, result.latency_ms)} a call"


def told_apart(panel: Panel) -> str:
    """Say how much faster the first is than the next that was told apart; empty where there is nothing to compare."""
    ranked = panel.ranked
    after = next((result for result in ranked if result.rank != 1), None)
    if after is None:
        return "No difference was found." if len(ranked) > 1 else ""
    if after.ratio is None:
        return f"{after.title} takes longer."
    return f"{figures.faster(ranked[0].title, after.title, after.ratio)}."


def surely_found(panels: Sequence[Panel]) -> str:
    """Say from what size on a difference would surely be found, in the worst of the panels; empty without a pair."""
    compared = [panel for panel in panels if len(panel.ranked) > 1]
    known = [panel.found_from for panel in compared if panel.found_from is not None]
    if not compared:
        return ""
    if not known:
        return "Too little was measured to say what difference would surely be found."
    worst, best = figures.share(max(known)), figures.share(min(known))
    where = "A" if len(compared) == 1 else "In every panel a"
    if len(known) < len(compared):
        where = f"In {len(compared) - len(known)} of {len(compared)} panels too little was measured; in the others a"
    least = f"; in the best panel from {best} on" if best != worst else ""
    return f"{where} difference of {worst} or more would surely be found (95 of 100 times{least}); smaller ones may be."


def listed(results: Sequence[Result], last: str = "and") -> str:
    """Give titles as a text: ``A, B and C``."""
    titles = [result.title for result in results]
    return f" {last} ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))
