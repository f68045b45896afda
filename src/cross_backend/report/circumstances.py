"""Circumstances: the rows that say where, with what and how a study was measured, and what disturbed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cross_backend.machine import Machine
from cross_backend.records import StudyResults
from cross_backend.report import tables, verdicts
from cross_backend.report.tables import Table
from cross_backend.report.views import View


def warnings(views: Sequence[View]) -> Table:
    """Return what disturbed the measurements, by cause."""
    found: dict[str, list[str]] = {}
    for view in views:
        for text in filter(None, (verdicts.disturbed(view.panel), *view.panel.warnings)):
            found.setdefault(text, []).append(view.label)
        for row in view.rows:
            for text in row.result.warnings:
                found.setdefault(text, []).append(f"{row.result.title} ({view.label})")
    rows = tuple((cause, "; ".join(dict.fromkeys(at))) for cause, at in found.items())
    return Table("Warnings", ("cause", "where"), rows)


def machine(results: StudyResults) -> Table:
    """Return the identity of each machine that measured."""
    places = {panel.machine.digest: (panel.place, panel.machine) for panel in results.panels}
    if len(places) < 2:
        return Table("Machine", ("what", "value"), _identity(results.machine))
    rows = [(f"{what} of {place}", value) for place, one in places.values() for what, value in _identity(one)]
    return Table("Machines", ("what", "value"), tuple(rows))


def _identity(here: Machine) -> tuple[tuple[str, str], ...]:
    return (
        ("processor", here.cpu),
        ("vector extensions", ", ".join(here.isa) or "not known"),
        ("cores", f"{here.physical_cores}, {here.usable_cpus} logical processors usable"),
        ("memory", tables.size(here.memory_bytes)),
        ("system", f"{here.system} {here.release}, {here.arch}"),
        ("Python", here.python),
        ("digest", here.digest),
    )


def versions(results: StudyResults) -> Table:
    """Return the versions of what took part."""
    found: dict[str, dict[str, list[str]]] = {}
    for part in results.parts or (results,):
        for name, version in part.versions.items():
            found.setdefault(name, {}).setdefault(version, []).append(getattr(part, "place", ""))
    rows = tuple(
        (name, next(iter(by))) if len(by) == 1 else (name, "; ".join(f"{v} on {', '.join(at)}" for v, at in by.items()))
        for name, by in sorted(found.items())
    )
    return Table("Versions", ("distribution", "version"), rows)


def settings(results: StudyResults) -> Table:
    """Return how it was measured."""
    return Table("Settings", ("setting", "value"), tuple((str(k), _flat(v)) for k, v in results.settings.items()))


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_flat(inner)}" for key, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_flat(inner) for inner in value)
    return "–" if value is None else str(value)
