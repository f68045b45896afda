"""Devices: what to ship on each machine of a comparison; as table and as page."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.records import Outcome, Panel
from cross_backend.report import figures, outcomes, tables, verdicts
from cross_backend.report.machines import changes
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
                f"{sum(one.outcome is Outcome.OK for one in panel.results)} of {len(panel.results)}",
            )
        )
    return Table(
        "What to ship on each device", ("model", "device", "machine", "fastest", "median", "verified"), tuple(rows)
    )


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
