"""Verdicts: what to ship and why, what was told apart, and from what size on a difference would surely be found."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.records import Panel, Result
from cross_backend.report import figures, tables

SMALLER = 1.1
"""Files are told apart by size where one is larger than the smallest by more than this factor."""
COVERED = 0.01
"""And by coverage where it differs by more than this."""

ROUGH = 0.5
"""Where only larger differences would surely be found, sharing a rank is no reason to choose by anything else."""
MEDIANS = 1.05
"""How far beyond the interval of the ratio the quotient of the medians may lie before a reader is told of it."""


def ship(panel: Panel) -> str:
    """Return which target to ship and why, with numbers."""
    ranked = panel.ranked
    first = [result for result in ranked if result.rank == 1]
    if not first:
        return "Ship none of these: no target was both proved right and measured."
    if len(first) > 1 and (panel.found_from or 0.0) > ROUGH:
        return (
            f"Ship none yet: {listed(first)} share the first rank, but only a difference of "
            f"{figures.share(panel.found_from or 0.0)} or more would surely be found; measure again on a quieter "
            "machine, or with more launches."
        )
    if len(first) > 1:
        return _among_equals(first)
    took = _took(first[0])
    if len(ranked) == 1:
        return f"Ship {first[0].title}, because it alone was proved right and measured here: {took}."
    return f"Ship {first[0].title}, because it is the fastest that is right: {took}."


def _among_equals(first: Sequence[Result]) -> str:
    """Choose between targets that share the first rank: the smaller file, then the better coverage, else any."""
    left, whys = list(first), []
    for narrow in (_smallest, _most_covered):
        kept, why = narrow(left)
        if len(kept) < len(left):
            left = kept
            whys.append(why)
    shared, why = f"{listed(first)} share the first rank", " and ".join(whys)
    if len(left) == 1:
        return f"Ship {left[0].title}, because it has {why}: {shared} at {_took(left[0])}."
    these = f", which have {why}" if why else ""
    return f"Ship {listed(left, 'or')}{these}: {shared}, and nothing else decides."


def _smallest(equals: list[Result]) -> tuple[list[Result], str]:
    """Return those whose file is about as small as the smallest, and the words for it."""
    sizes = [result.size_bytes or 0 for result in equals]
    least = min(sizes)
    others = [size for size in sizes if size > SMALLER * least]
    if not least or not others:
        return equals, ""
    kept = [result for result, size in zip(equals, sizes, strict=True) if size <= SMALLER * least]
    return kept, f"the smallest file ({tables.size(least)}, the next {tables.size(min(others))})"


def _most_covered(equals: list[Result]) -> tuple[list[Result], str]:
    """Return those whose backend takes about as many operators as the best, and the words for it."""
    shares = [(result.placement.coverage or 0.0) if result.placement else 0.0 for result in equals]
    most = max(shares)
    others = [share for share in shares if share < most - COVERED]
    if not others:
        return equals, ""
    kept = [result for result, share in zip(equals, shares, strict=True) if share >= most - COVERED]
    return kept, f"the best coverage ({tables.percent(most)}, the next {tables.percent(max(others))})"


def _took(result: Result) -> str:
    assert result.latency_ms is not None, "what is ranked was measured"
    return f"{figures.duration(result.latency_ms.value, result.latency_ms)} a call"


def told_apart(panel: Panel) -> str:
    """Return how much faster the first is than the next that was told apart; empty where nothing compares."""
    ranked = panel.ranked
    after = next((result for result in ranked if result.rank != 1), None)
    if after is None:
        return "No difference was found." if len(ranked) > 1 else ""
    if after.ratio is None:
        return f"{after.title} takes longer."
    return f"{figures.faster(ranked[0].title, after.title, after.ratio)}."


def surely_found(panels: Sequence[Panel]) -> str:
    """Return from what size on a difference would surely be found, in the worst of the panels; empty without a pair."""
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


def disturbed(panel: Panel) -> str:
    """Return a note where medians and ratios disagree, else an empty text: medians hold what disturbed the calls."""
    ranked = panel.ranked
    for result in ranked[1:]:
        leader = ranked[0].latency_ms
        assert leader is not None and result.latency_ms is not None, "what is ranked was measured"
        quotient = result.latency_ms.value / leader.value
        if result.ratio and not result.ratio.low / MEDIANS <= quotient <= result.ratio.high * MEDIANS:
            return (
                "Medians and ratios tell different stories here: something disturbed many calls, which count in the "
                "medians; the ratios are those of the calls that nothing disturbed."
            )
    return ""


def listed(results: Sequence[Result], last: str = "and") -> str:
    """Return titles as a text: ``A, B and C``."""
    titles = [result.title for result in results]
    return f" {last} ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))
