"""Devices: what to ship on each machine of a comparison, and what changes between machines; as table and as page."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.records import Outcome, Panel, Result
from cross_backend.report import figures, outcomes, tables, verdicts
from cross_backend.report.markdown import escaped, section
from cross_backend.report.tables import NONE, Table


def summary(panels: Sequence[Panel]) -> Table:
    """Return one row a model and machine: what is fastest and right there, and by how much."""
    rows = []
    for panel in panels:
        first = [result for result in panel.ranked if result.rank == 1]
        latency = first[0].latency_ms if first else None
        rows.append(
            (
                panel.workload,
                panel.place,
                f"{panel.machine.cpu}, {panel.machine.arch}",
                verdicts.listed(first) if first else NONE,
                figures.duration(latency.value, latency) if latency else NONE,
                _verified(panel),
            )
        )
    return Table(
        "What to ship on each device", ("model", "device", "machine", "fastest", "median", "verified"), tuple(rows)
    )


def _verified(panel: Panel) -> str:
    right = sum(result.outcome is Outcome.OK for result in panel.results)
    return f"{right} of {len(panel.results)}"


def changes(panels: Sequence[Panel]) -> list[str]:
    """Return what differs between the machines of one model: the fastest target, what fails on some only."""
    found = []
    for workload in dict.fromkeys(panel.workload for panel in panels):
        of_model = [panel for panel in panels if panel.workload == workload]
        leaders = {panel.place: verdicts.listed(first) for panel in of_model if (first := _first(panel))}
        if len(set(leaders.values())) > 1:
            told = "; ".join(f"{names} on {place}" for place, names in leaders.items())
            found.append(f"{workload}: the fastest differs by device: {told}.")
        elif len(leaders) > 1:
            found.append(f"{workload}: {next(iter(leaders.values()))} is the fastest on {_places(list(leaders))}.")
        found += [f"{workload}: {text}" for text in _outcomes(of_model)]
    return found


def _first(panel: Panel) -> list[Result]:
    return [result for result in panel.ranked if result.rank == 1]


def _places(names: Sequence[str]) -> str:
    return "both devices" if len(names) == 2 else f"all {len(names)} devices"


def _outcomes(panels: Sequence[Panel]) -> list[str]:
    """Return which targets end otherwise on one machine than on another."""
    found = []
    for results in zip(*(panel.results for panel in panels), strict=True):
        ends = {panel.place: result.outcome for panel, result in zip(panels, results, strict=True)}
        if len(set(ends.values())) > 1:
            told = ", ".join(f"{outcome} on {place}" for place, outcome in ends.items())
            found.append(f"{results[0].title} is {told}.")
    return found


def decision(panels: Sequence[Panel], command: str) -> str:
    """Return the page for a design document: what to ship on each device, why, what was not measured, how to repeat it.

    Args:
        panels: of all models and machines.
        command: that repeats the comparison.
    """
    lines = ["# Which backend to ship", ""]
    lines += section(summary(panels)) if len(panels) > 1 else []
    for panel in panels:
        title = f"{panel.workload} on {panel.place}"
        lines += [f"## {escaped(title)}", "", f"**{escaped(verdicts.ship(panel))}**", ""]
        lead = verdicts.lead(panel)
        lines += [escaped(lead), ""] if lead else []
        machine = panel.machine
        lines += [
            escaped(
                f"Machine: {machine.cpu}, {machine.arch}, {machine.physical_cores} cores, "
                f"{machine.memory_bytes / 1e9:.0f} GB, {machine.system} {machine.release}."
            ),
            "",
        ]
        lines += ["### Ranking", *section(tables.ranking(panel).filled)[1:]]
        lines += _not_measured(panel)
    told = changes(panels)
    lines += ["## What changes between devices", "", *(f"- {escaped(text)}" for text in told), ""] if told else []
    found = verdicts.resolution(panels)
    lines += [escaped(found), ""] if found else []
    return "\n".join([*lines, "## Repeat it", "", "```bash", command, "```", ""])


def _not_measured(panel: Panel) -> list[str]:
    rows = [
        f"- {escaped(f'{titles}: {outcome}: {outcomes.sentence(why)}')}"
        for outcome, why, titles in outcomes.reasons(panel.results)
    ]
    rows += [f"- {escaped(f'{r.title}: no rank: {r.unranked}')}" for r in panel.results if r.unranked]
    rows += [f"- {escaped(text)}" for text in panel.warnings]
    return ["Not measured, and warnings:", "", *rows, ""] if rows else []
