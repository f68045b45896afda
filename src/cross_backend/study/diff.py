"""Diff: what changed between two studies, cell by cell; a verdict only where chance and this machine do not explain it.

A target is *the same* only if the whole interval lies within a margin that is asked for: whoever measured too little
*cannot tell*. It is *slower* (or *faster*) only if three things hold: the whole 95 % interval of the ratio of medians
lies beyond the larger noise floor of the two panels; the same still holds with the interval widened for the number of
cells that are compared (Holm's step-down rule, :func:`_holm`), so that all verdicts of a diff together are wrong with
a probability of at most 5 %; and both results were verified and ran on the device that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from cross_backend.measure.quantiles import CONFIDENCE
from cross_backend.measure.statistics import unpaired_ratio
from cross_backend.measurement import Interval
from cross_backend.records import Outcome, Panel, PanelKey, Result, StudyResults
from cross_backend.report import tables
from cross_backend.report.tables import Table

Key = tuple[PanelKey, str]
"""Panel and target."""


class CellVerdict(StrEnum):
    """What became of a cell."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """A difference as large as the margin is ruled out."""
    NEW = "new"
    GONE = "gone"
    NOW_FAILS = "now fails"
    NOW_WORKS = "now works"
    WRONG_NOW = "wrong now"
    STILL_FAILS = "still fails"
    CANNOT_TELL = "cannot tell"
    """Neither a difference nor its absence is shown, or durations mean nothing there."""


MARGIN = 0.10
"""Relative difference that must be ruled out to say *same*, where nothing else is asked for. Three launches that
scatter by 3 % rule out some 7 to 10 %; two single ones, which may differ by 29 %, never do."""
_WRONG = frozenset({CellVerdict.NOW_FAILS, CellVerdict.WRONG_NOW})
FAIL_ON = {
    "never": frozenset[CellVerdict](),
    "wrong": _WRONG,
    "slower": _WRONG | {CellVerdict.SLOWER},
    "cannot-tell": _WRONG | {CellVerdict.SLOWER, CellVerdict.CANNOT_TELL, CellVerdict.GONE},
}
"""What a CI may fail on → the verdicts that do; each kind includes those before it."""


@dataclass(frozen=True)
class DiffRow:
    """One cell."""

    workload: str
    batch: int
    threads: int
    target: str
    verdict: CellVerdict
    before: Interval | None = None
    """Median latency and its interval in the first study, milliseconds."""
    after: Interval | None = None
    """The same in the second."""
    ratio: Interval | None = None
    """After / before: above 1 is slower."""
    floor: float | None = None
    """Larger noise floor of the two panels, natural logarithm of a ratio."""
    note: str = ""
    """Why, where the figures do not say it."""


@dataclass(frozen=True)
class Diff:
    """What changed from one study to another."""

    before: str
    """Name of the first study."""
    after: str
    rows: tuple[DiffRow, ...]
    caveats: tuple[str, ...]
    """What differs beside the code: machines, versions, settings; and what was not finished."""
    margin: float = MARGIN
    """Relative difference that was to be ruled out."""

    @property
    def regressed(self) -> bool:
        """Whether something became slower, wrong, or fails now."""
        return self.fails("slower")

    def fails(self, on: str) -> bool:
        """Whether a verdict of this kind of :data:`FAIL_ON` is among the rows."""
        return any(row.verdict in FAIL_ON[on] for row in self.rows)

    @property
    def summary(self) -> str:
        """Return it in one line."""
        counts = {verdict: sum(row.verdict is verdict for row in self.rows) for verdict in CellVerdict}
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        return f"{self.before} → {self.after}: {told or 'nothing to compare'}."

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "schema": 1,
            "before": self.before,
            "after": self.after,
            "regressed": self.regressed,
            "margin": self.margin,
            "caveats": list(self.caveats),
            "rows": [asdict(row) for row in self.rows],
        }

    def table(self) -> Table:
        """Return a row per cell, for every medium."""
        headers = ("workload", "batch", "threads", "target", "before ms", "after ms", "ratio", "verdict", "note")
        return Table(self.summary, headers, tuple(_cells(row) for row in self.rows), (1, 2, 4, 5, 6))


def _cells(row: DiffRow) -> tuple[str, ...]:
    before, after = (tables.milliseconds(one.value) if one else "–" for one in (row.before, row.after))
    ratio = f"{row.ratio.value:.3f} [{row.ratio.low:.3f}, {row.ratio.high:.3f}]" if row.ratio else "–"
    place = (row.workload, str(row.batch), str(row.threads), row.target)
    return (*place, before, after, ratio, str(row.verdict), row.note)


def diff(before: StudyResults, after: StudyResults, margin: float = MARGIN) -> Diff:
    """Compare two studies; cells meet by workload, batch, threads and target.

    Args:
        before: one.
        after: the other.
        margin: relative difference that must be ruled out to say *same*, 0.1 for 10 %.
    """
    first, second = by_key(before), by_key(after)
    keys = [*first, *(key for key in second if key not in first)]
    rows = [_row(key, first.get(key), second.get(key), margin) for key in keys]

    def told_apart(index: int, confidence: float) -> bool:
        old, new = first[keys[index]][1].latency, second[keys[index]][1].latency
        assert old is not None and new is not None, "only cells with two latencies have a floor"
        ratio = unpaired_ratio(new, old, confidence)
        return ratio is not None and beyond(ratio, rows[index].floor or 0.0) is not None

    found = tuple(_holm(rows, told_apart, margin))
    return Diff(before.name, after.name, found, tuple(_caveats(before, after)), margin)


def by_key(study: StudyResults) -> dict[Key, tuple[Panel, Result]]:
    """Return every cell of a study's results."""
    return {(PanelKey.of(panel), result.target): (panel, result) for panel in study.panels for result in panel.results}


def _row(key: Key, first: tuple[Panel, Result] | None, second: tuple[Panel, Result] | None, margin: float) -> DiffRow:
    """Compare one cell on its own; SLOWER and FASTER here are still to pass :func:`_holm`."""
    old, new = first[1] if first else None, second[1] if second else None
    panel, target = key
    row = DiffRow(panel.workload, panel.batch, panel.threads, target, CellVerdict.CANNOT_TELL)
    row = replace(row, before=old.latency_ms if old else None, after=new.latency_ms if new else None)
    if old is None or new is None:
        one = old or new
        assert one is not None, "the key is one of the two studies'"
        return replace(row, verdict=CellVerdict.GONE if new is None else CellVerdict.NEW, note=_why_not(one))
    verdict = _by_outcome(old, new)
    if verdict is not None:
        return replace(row, verdict=verdict, note=_why_not(old if verdict is CellVerdict.NOW_WORKS else new))
    if old.unranked is not None:
        return replace(row, note=old.unranked)
    if old.latency is None or new.latency is None:
        return replace(row, note="not measured in both")
    assert first is not None and second is not None
    floors = [one.noise_floor for one, _ in (first, second)]
    ratio = unpaired_ratio(new.latency, old.latency)
    if ratio is None or None in floors:
        why = "too little was measured for an interval" if ratio is None else "no noise floor was measured"
        return replace(row, ratio=ratio, note=why)
    row = replace(row, ratio=ratio, floor=max(floor for floor in floors if floor is not None))
    verdict = beyond(ratio, row.floor or 0.0)
    return replace(row, verdict=verdict) if verdict else _undistinguished(row, margin)


def _by_outcome(old: Result, new: Result) -> CellVerdict | None:
    """Return the verdict where not both can be timed and mean the same."""
    worked, works = old.outcome is Outcome.OK, new.outcome is Outcome.OK
    if not works:
        if new.outcome is Outcome.MISMATCH and old.outcome is not Outcome.MISMATCH:
            return CellVerdict.WRONG_NOW
        return CellVerdict.NOW_FAILS if worked else CellVerdict.STILL_FAILS
    if not worked:
        return CellVerdict.NOW_WORKS
    if (old.unranked is None) != (new.unranked is None):
        return CellVerdict.NOW_FAILS if old.unranked is None else CellVerdict.NOW_WORKS
    return None


def _why_not(result: Result) -> str:
    """Return how a result ended; empty where it is right and where it was asked to run."""
    if result.outcome is not Outcome.OK:
        return f"{result.outcome}: {result.reason}" if result.reason else str(result.outcome)
    return result.unranked or ""


def beyond(ratio: Interval, floor: float) -> CellVerdict | None:
    """Whether the whole interval lies beyond the floor, and on which side."""
    if math.log(ratio.low) > floor:
        return CellVerdict.SLOWER
    return CellVerdict.FASTER if math.log(ratio.high) < -floor else None


def _undistinguished(row: DiffRow, margin: float) -> DiffRow:
    """Return the verdict of a cell in which no difference is shown: that is not to say that there is none."""
    assert row.ratio is not None, "it has an interval"
    if row.ratio.high <= 1 + margin and row.ratio.low >= 1 / (1 + margin):
        return replace(row, verdict=CellVerdict.SAME)
    note = "; ".join(filter(None, (row.note, f"a change of {margin * 100:g} % is not ruled out")))
    return replace(row, verdict=CellVerdict.CANNOT_TELL, note=note)


def _holm(rows: Sequence[DiffRow], told_apart: Callable[[int, float], bool], margin: float) -> list[DiffRow]:
    """Take back verdicts that so many comparisons bring about by chance.

    Holm's step-down rule (*Scand. J. Statist.* 6, 1979): of m comparisons the first has to hold with an error of
    (1 − confidence) / m, the next with (1 − confidence) / (m − 1), and so on. All that hold at a step are taken at
    once, which ends with the same set.

    Args:
        rows: verdicts of each on its own.
        told_apart: whether the row of that index holds at a confidence.
        margin: relative difference that must be ruled out to say *same*.
    """
    waiting = [i for i, row in enumerate(rows) if row.floor is not None]
    count, proved = len(waiting), set[int]()
    while True:
        level = 1 - (1 - CONFIDENCE) / max(len(waiting), 1)
        found = {i for i in waiting if told_apart(i, level)}
        if not found:
            break
        proved |= found
        waiting = [i for i in waiting if i not in found]
    note = f"; among {count} comparisons chance explains it"
    return [
        _undistinguished(replace(row, note=f"{row.verdict} on its own{note}"), margin)
        if row.verdict in {CellVerdict.SLOWER, CellVerdict.FASTER} and i not in proved
        else row
        for i, row in enumerate(rows)
    ]


def _caveats(before: StudyResults, after: StudyResults) -> list[str]:
    """Return what else differs, which may be the reason for what is seen."""
    told = []
    for what, first, second in (
        ("measured on different machines", asdict(before.machine), asdict(after.machine)),
        ("different versions", before.versions, after.versions),
        ("different settings", before.settings, after.settings),
    ):
        if changes := _changes(first, second):
            told.append(f"{what}: {changes}")
    for study in (before, after):
        if not study.finished:
            told.append(f"{study.name} is not finished: unmeasured cells are missing or gone")
        elif any(panel.interrupted for panel in study.panels):
            told.append(f"{study.name} was interrupted: some panels have fewer samples")
    return told


def _changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """Return ``key a → b`` for every difference."""
    keys = [*first, *(key for key in second if key not in first)]
    return ", ".join(
        f"{key} {first.get(key, 'none')} → {second.get(key, 'none')}"
        for key in keys
        if first.get(key, "none") != second.get(key, "none")
    )
