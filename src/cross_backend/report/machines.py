"""Machines: the fastest of each panel by machine, what changes between machines, and what each has of a study."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.records import Panel, Result, StudyResults
from cross_backend.report import figures, verdicts
from cross_backend.report.tables import NONE, Table
from cross_backend.report.views import threads as threads_of


def changes(panels: Sequence[Panel], what: str = "device") -> list[str]:
    """Return what differs between the machines of one panel: the fastest target, what fails on some only.

    Args:
        panels: of all models and machines.
        what: what a machine is called.
    """
    found = []
    for label, alike in by_content(panels).items():
        leaders = {panel.place: verdicts.listed(first) for panel in alike if (first := _first(panel))}
        if len(set(leaders.values())) > 1:
            told = "; ".join(f"{names} on {place}" for place, names in leaders.items())
            found.append(f"{label}: the fastest differs by {what}: {told}.")
        elif len(leaders) > 1:
            count = "both" if len(leaders) == 2 else f"all {len(leaders)}"
            found.append(f"{label}: {next(iter(leaders.values()))} is the fastest on {count} {what}s.")
        found += [f"{label}: {text}" for text in _outcomes(alike)]
    return found


def differences(panels: Sequence[Panel]) -> Table:
    """Return :func:`changes` as a table."""
    return Table("What changes between machines", ("what",), tuple((text,) for text in changes(panels, "machine")))


def by_content(panels: Sequence[Panel]) -> dict[str, list[Panel]]:
    """Return what was measured → its panels, one a machine; batch and threads are named where there are several."""
    batches, threads = ({panel.batch for panel in panels}, {panel.settings.get("threads") for panel in panels})
    found: dict[str, list[Panel]] = {}
    for panel in panels:
        label = panel.workload
        label += f", batch {panel.batch}" if len(batches) > 1 else ""
        label += f", {threads_of(panel)}" if len(threads) > 1 else ""
        found.setdefault(label, []).append(panel)
    return found


def by_machine(panels: Sequence[Panel]) -> Table:
    """Return the fastest target of each panel and its median, a column a machine."""
    places = list(dict.fromkeys(panel.place for panel in panels))
    rows = []
    for label, alike in by_content(panels).items():
        cells = dict.fromkeys(places, NONE)
        cells |= {panel.place: _fastest(panel) for panel in alike}
        rows.append((label, *cells.values()))
    return Table("Fastest on each machine", ("panel", *places), tuple(rows))


def _fastest(panel: Panel) -> str:
    first = _first(panel)
    latency = first[0].latency_ms if first else None
    if latency is None:
        return "nothing could be ranked"
    return f"{verdicts.listed(first)}, {figures.duration(latency.value, latency)}"


def machines(results: StudyResults) -> Table:
    """Return what each machine has of a study: a row for each kind of machine of a class."""
    rows = tuple(
        (
            part.place,
            f"{part.machine.cpu}, {part.machine.arch}",
            f"{part.panels} of {part.asked}",
            part.started[:16].replace("T", " "),
            str(part.study),
        )
        for part in results.parts
    )
    return Table("Measured on", ("machine", "processor", "panels", "begun", "number"), rows, (2, 4))


def _first(panel: Panel) -> list[Result]:
    return [result for result in panel.ranked if result.rank == 1]


def _outcomes(panels: Sequence[Panel]) -> list[str]:
    """Return which targets end otherwise on one machine than on another."""
    found = []
    for results in zip(*(panel.results for panel in panels), strict=True):
        ends = {panel.place: result.outcome for panel, result in zip(panels, results, strict=True)}
        if len(set(ends.values())) > 1:
            told = ", ".join(f"{outcome} on {place}" for place, outcome in ends.items())
            found.append(f"{results[0].title} is {told}.")
    return found
