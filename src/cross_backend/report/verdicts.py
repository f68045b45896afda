"""Verdicts: which target to ship and why, by how much it leads, and what difference a comparison detects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from cross_backend.errors import UsageError
from cross_backend.measure.paired import MIN_ROUNDS
from cross_backend.names.platforms import Platform, find_platform
from cross_backend.names.task_metrics import drop
from cross_backend.records import INTERRUPTED, Outcome, Panel, Result, peak_of
from cross_backend.registry import Role, role_of
from cross_backend.report import figures, tables

SMALLER = 1.1
"""Files and memory decide between equals where one is larger than the smallest by more than this factor."""
COMPUTED = 0.01
"""The computed share of FLOPs or of time decides where it differs by more than this."""
LOSS = 0.01
"""Lower precision is advised where no task metric is worse than float32's by more than this: a point, or 1 % of what
is better if smaller."""
ROUGH = 0.5
"""Where only larger differences are detected, sharing a rank is no reason to choose by anything else."""
MEDIANS = 1.05
"""How far beyond the interval of the ratio the quotient of the medians may lie before a note says so."""


def ship(panel: Panel) -> str:
    """Return which target to ship on the measuring machine and why, with numbers."""
    return " ".join(parts(panel))


def parts(panel: Panel) -> list[str]:
    """Return the advice, and further sentences on what limits it."""
    platform = other_platform(panel)
    if platform is not None:
        return _for_another_machine(panel, platform)
    waiting = [result for result in panel.results if result.unfinished]
    if waiting:
        return [_not_yet(panel, waiting)]
    first = [result for result in panel.ranked if result.rank == 1]
    functional = [r for r in panel.results if r.execution is not None and r.execution.functional_only is not None]
    if not first and (right := [result for result in functional if result.outcome is Outcome.OK]):
        return [f"Ship none yet: {listed(right)} verified {here(panel)}, which shows no speed."]
    if not first:
        return [f"Ship none of these: no target was both verified and measured {here(panel)}."]
    if len(first) > 1 and (panel.found_from is None or panel.found_from > ROUGH):
        found = "no difference" if panel.found_from is None else f"only {_at_least(panel.found_from)}"
        return [
            f"Ship none yet: {names(panel, first)} share the first rank {here(panel)}, and {found} is detected.",
            "Measure again on a quieter machine, or with more launches.",
        ]
    return [text for text in (_advice(panel, first), _offer(panel, first), _others(panel, first)) if text]


def other_platform(panel: Panel) -> Platform | None:
    """Return the platform of a comparison that ran on a machine of another one; None where it ran on its own."""
    with contextlib.suppress(UsageError):  # of a newer version, or of a stranger
        asked = panel.settings.get("platform")
        if asked is not None and find_platform(str(asked)).name != panel.machine.system:
            return find_platform(str(asked))
    return None


def here(panel: Panel) -> str:
    """Return the words for the machine that measured."""
    return f"on {'this machine' if panel.place == 'local' else panel.place} ({panel.machine.cpu})"


def _for_another_machine(panel: Panel, platform: Platform) -> list[str]:
    """Return what a comparison on this machine proves about another one: what was verified and what was lowered."""
    right = [result for result in panel.results if result.outcome is Outcome.OK]
    lowered = [r for r in panel.results if r.outcome is Outcome.UNAVAILABLE and r.size_bytes is not None]
    first = next((r for r in panel.results if r.target.partition("?")[0] == platform.backends[0]), None)
    only = f"no such device was measured, only this machine ({panel.machine.cpu})"
    told = [f"Ship none yet for {platform.title}: {only}."]
    if first is not None and first.rank is None:
        told.append(f"{first.title}, the first choice for {platform.title}, was not measured.")
    told += [f"Lowered and verified here: {listed(right)}."] if right else []
    told += [f"Lowered, not run: {listed(lowered)}."] if lowered else []
    return told


def _not_yet(panel: Panel, waiting: Sequence[Result]) -> str:
    """Return why a comparison that did not reach every target has no advice."""
    count = f"{len(waiting)} of {sum(r.unfinished or r.rank is not None for r in panel.results)} targets"
    stopped = any(r.outcome is Outcome.NOT_MEASURED or r.unranked == INTERRUPTED for r in waiting)
    if stopped:
        return f"Ship none yet: the comparison {here(panel)} was interrupted before {count} could be compared."
    return (
        f"Ship none yet: too few calls of {count} were measured {here(panel)}. Measure at least {MIN_ROUNDS} of each."
    )


def _advice(panel: Panel, first: Sequence[Result]) -> str:
    """Return which of the targets of the first rank to ship, or the fastest of float32 where all of them are less."""
    chosen = [result for result in first if _as_exact(panel, result)]
    if not chosen:
        exact = [result for result in panel.ranked if _as_exact(panel, result)]
        if not exact:
            return f"Ship none yet: no float32 target was measured beside those of lower precision {here(panel)}."
        chosen = [result for result in exact if result.rank == exact[0].rank]
    if len(chosen) > 1:
        return _among_equals(panel, chosen)
    why = "fastest correct backend of float32" if chosen[0].rank != 1 else "fastest correct backend"
    if len(panel.ranked) == 1:
        why = "only backend verified and measured"
    return f"Ship {name(panel, chosen[0])}: the {why} {here(panel)}, {_took(chosen[0])}."


def _among_equals(panel: Panel, equals: Sequence[Result]) -> str:
    """Choose between targets of one rank: by what they compute themselves, by size, by memory, else any."""
    products = [result for result in equals if role_of(result.target) is not Role.OWN]
    left, whys = products or list(equals), []
    for narrow in (_most_computed, _smallest, _least_memory):
        kept, why = narrow(left)
        if len(kept) < len(left):
            left = kept
            whys.append(why)
    why = f": {' and '.join(whys)}" if whys else ""
    shared = f"{names(panel, equals)} share rank {equals[0].rank} {here(panel)}, {_took(left[0])}"
    end = "." if len(left) == 1 else "; nothing else decides."
    return f"Ship {names(panel, left, 'or')}{why}. {shared}{end}"


def _offer(panel: Panel, first: Sequence[Result]) -> str:
    """Return which faster targets of lower precision there are, whose cost no task metric shows."""
    offered = [result for result in first if not _as_exact(panel, result)]
    if not offered:
        return ""
    takes, whose = ("takes", "Its") if len(offered) == 1 else ("take", "Their")
    kinds = listed_texts(sorted({str(result.precision) for result in offered}))
    return (
        f"{names(panel, offered)} {takes} {_took(offered[0])}. {whose} outputs are verified to {kinds} precision: "
        "measure the accuracy of your task before you ship it."
    )


def _others(panel: Panel, first: Sequence[Result]) -> str:
    """Return the fastest that is not this project's own, where only ours are advised."""
    if any(role_of(result.target) is not Role.OWN for result in first):
        return ""
    other = next((result for result in panel.ranked if role_of(result.target) is not Role.OWN), None)
    return f"The fastest of the others: {name(panel, other)}, {_took(other)}." if other else ""


def lower_precision(result: Result) -> bool:
    """Whether it computes, or was asked to compute, with less than float32."""
    return result.precision not in {None, "fp32"}


def _as_exact(panel: Panel, result: Result) -> bool:
    """Whether it is float32, or its task metrics are about as good."""
    if not lower_precision(result):
        return True
    exact = _exact(panel)
    return (
        bool(result.task)
        and exact is not None
        and all(
            name in exact.task and drop(name, value, exact.task[name]) <= LOSS for name, value in result.task.items()
        )
    )


def _exact(panel: Panel) -> Result | None:
    """Return the fastest float32 target, beside which lower precision is shown."""
    return next((result for result in panel.ranked if not lower_precision(result)), None)


def name(panel: Panel, result: Result) -> str:
    """Return a target's title; one of lower precision with its task metrics or its error beside float32's."""
    if not lower_precision(result) or result.comparison is None:
        return result.title
    exact = _exact(panel)
    if result.task:
        costs = [(key, value, exact and exact.task.get(key)) for key, value in result.task.items()]
        told = [
            f"{key} {tables.score(key, value)}" + (f", float32 {tables.score(key, of)}" if of else "")
            for key, value, of in costs
        ]
    else:
        other = f", float32 {_signal(exact)}" if exact is not None else ""
        told = [f"SQNR {_signal(result)}{other}"]
    return f"{result.title} ({'; '.join(told)})"


def _signal(result: Result) -> str:
    decibels = tables.decibels(result.comparison)
    return decibels if decibels in {"equal", tables.NONE} else f"{decibels} dB"


def _narrowed(equals: list[Result], bytes_of: Callable[[Result], int | None], what: str) -> tuple[list[Result], str]:
    """Return those whose bytes are about as few as the fewest, and the words for it; all where one is unknown."""
    known = [value for value in map(bytes_of, equals) if value]
    if len(known) < len(equals):
        return equals, ""
    least = min(known)
    others = [value for value in known if value > SMALLER * least]
    kept = [result for result, value in zip(equals, known, strict=True) if value <= SMALLER * least]
    return kept, f"{what} ({tables.size(least)}, the next {tables.size(min(others))})" if others else ""


def _smallest(equals: list[Result]) -> tuple[list[Result], str]:
    return _narrowed(equals, lambda result: result.size_bytes, "the smallest file")


def _least_memory(equals: list[Result]) -> tuple[list[Result], str]:
    return _narrowed(equals, peak_of, "the least memory")


def _most_computed(equals: list[Result]) -> tuple[list[Result], str]:
    """Return those whose backend computes about as large a share as the best, and the words for it."""
    known = [share for share in map(computed, equals) if share is not None]
    if len(known) < len(equals):
        return equals, ""
    most = max(known)
    others = [share for share in known if share < most - COMPUTED]
    if not others:
        return equals, ""
    kept = [result for result, share in zip(equals, known, strict=True) if share >= most - COMPUTED]
    return kept, f"the largest share of the work ({tables.percent(most)}, the next {tables.percent(max(others))})"


def computed(result: Result) -> float | None:
    """Return the share of the time, else of the FLOPs, that the backend itself computes; None where unknown."""
    if result.execution is not None and result.execution.time is not None:
        return result.execution.time
    held = result.placement
    if held is None or held.flop_coverage is not None:
        return held.flop_coverage if held else None
    return None if held.left else 1.0


def _took(result: Result) -> str:
    assert result.latency_ms is not None, "what is ranked was measured"
    return f"{figures.duration(result.latency_ms.value, result.latency_ms)} per call"


def lead(panel: Panel) -> str:
    """Return how much faster the first is than the next in rank; empty where nothing compares."""
    ranked = panel.ranked
    after = next((result for result in ranked if result.rank != 1), None)
    if after is None:
        return "No difference was found." if len(ranked) > 1 else ""
    if after.ratio is None:
        return f"{name(panel, after)} takes longer."
    return f"{figures.faster(name(panel, ranked[0]), name(panel, after), after.ratio)}."


def resolution(panels: Sequence[Panel]) -> str:
    """Return what difference is detected with 95 % power, in the worst of the panels; empty without a pair."""
    compared = [panel for panel in panels if len(panel.ranked) > 1]
    known = [panel.found_from for panel in compared if panel.found_from is not None]
    if not compared:
        return ""
    if not known:
        return "Resolution: unknown, because too little was measured."
    worst, best = max(known), min(known)
    text = f"Resolution: {_at_least(worst)} is detected with 95 % power"
    if len(known) > 1:
        text += f" in every panel (from {figures.share(best)} on in the best)" if best != worst else " in every panel"
    unknown = len(compared) - len(known)
    more = f" Unknown in {unknown} of {len(compared)} panels: too little was measured there." if unknown else ""
    return f"{text}.{more}"


def _at_least(share: float) -> str:
    return f"a difference of {figures.share(share)} or more"


def disturbed(panel: Panel) -> str:
    """Return a note where medians and ratios disagree, else an empty text: medians hold what disturbed the calls."""
    ranked = panel.ranked
    for result in ranked[1:]:
        leader = ranked[0].latency_ms
        assert leader is not None and result.latency_ms is not None, "what is ranked was measured"
        quotient = result.latency_ms.value / leader.value
        if result.ratio and not result.ratio.low / MEDIANS <= quotient <= result.ratio.high * MEDIANS:
            return (
                "Other work disturbed many calls. Medians include those calls; ratios do not, so the two disagree here."
            )
    return ""


def names(panel: Panel, results: Sequence[Result], last: str = "and") -> str:
    """Return the names of targets as a text: ``A, B and C``."""
    return listed_texts([name(panel, result) for result in results], last)


def listed(results: Sequence[Result], last: str = "and") -> str:
    """Return titles as a text: ``A, B and C``."""
    return listed_texts([result.title for result in results], last)


def listed_texts(texts: Sequence[str], last: str = "and") -> str:
    """Return texts as one: ``A, B and C``."""
    return f" {last} ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
