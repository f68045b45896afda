"""Printed: a comparison or a study as lines and tables, for terminals, pipes and ``print()``."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace

from cross_backend.records import Outcome, Panel, Result, StudyResults
from cross_backend.report import circumstances, devices, figures, machines, outcomes, study_tables, tables, verdicts
from cross_backend.report.low_precision import agreements, not_faster
from cross_backend.report.placement import TELLING, left_by_delegate
from cross_backend.report.tables import Table
from cross_backend.report.terminal import Terminal
from cross_backend.report.views import functional, threads, views

_MEDALS = {1: "🥇", 2: "🥈", 3: "🥉"}


def print_panel(terminal: Terminal, panel: Panel, model: str | None = None) -> None:
    """Print a comparison: a line per target, the ranking, the summary.

    Args:
        terminal: where to.
        panel: the comparison.
        model: what the command line takes for the model; the workload's name where None.
    """
    batch = f", batch {panel.batch}" if panel.batch > 1 else ""
    place = f" on {panel.place}" if panel.place != "local" else ""
    terminal.text(f"🚀 cross-backend: {panel.workload}{batch}{place}", style="bold")
    terminal.text("=" * 55)
    launches = f"; {panel.launches} launches" if panel.launches > 1 else ""
    reference = panel.proof.get("reference", "eager float32")
    terminal.text(f"📊 {panel.machine.cpu}, {threads(panel)} each; every output checked against {reference}{launches}")
    terminal.text()
    for result in panel.results:
        if result.outcome is Outcome.OK:
            terminal.text(_ended_well(result))
    for outcome, why, titles in outcomes.reasons(panel.results):
        terminal.text(f"{outcomes.MARKS[outcome]} {titles}: {outcome}: {outcomes.sentence(why)}")
    _print_commands(terminal, [panel], model)
    terminal.text()
    if panel.ranked:
        terminal.text("🏆 Performance Ranking:", style="bold")
        terminal.text("-" * 50)
        _print_ranking(terminal, panel)
        terminal.text()
    else:
        terminal.text("❌ Nothing could be ranked.")
        terminal.text()
    _print_summary(terminal, panel)
    if panel.lost is not None:
        terminal.text(f"❌ {outcomes.sentence(panel.lost)} This is what was finished until then.")
    elif panel.interrupted:
        terminal.text("⚠️ Interrupted: this is what was finished until then.")


def _print_commands(terminal: Terminal, panels: Sequence[Panel], model: str | None = None) -> None:
    """Print how to find the operators that are wrong."""
    commands = (text for one in panels for text in outcomes.to_localize(one.results, model or one.workload))
    for command in dict.fromkeys(commands):
        terminal.text(f"   find the operator: {command}")


def _ended_well(result: Result) -> str:
    if result.latency_ms is None or result.mean_ms is None:
        if functional(result):
            return f"⚠️ {result.title}: verified, functional check only: {result.unranked}"
        return f"⚠️ {result.title}: verified, not measured{f' ({result.unranked})' if result.unranked else ''}"
    mark, why = ("✅", "") if result.unranked is None else ("⚠️", f"; no rank: {result.unranked}")
    mean, median = (figures.duration(ms, result.latency_ms) for ms in (result.mean_ms, result.latency_ms.value))
    return f"{mark} {result.title}: {mean} avg, {median} median{why}"


def text(shown: Panel | StudyResults) -> str:
    """Return what is printed of a panel or a study, as plain text as wide as the terminal."""
    if isinstance(shown, Panel):
        return written(lambda terminal: print_panel(terminal, shown))
    return written(lambda terminal: print_study(terminal, shown))


def written(show: Callable[[Terminal], None]) -> str:
    """Return what a function prints, as plain text as wide as the terminal."""
    into = io.StringIO()
    show(Terminal(into=into, width=shutil.get_terminal_size().columns))
    return "\n".join(line.rstrip() for line in into.getvalue().splitlines())


def _print_ranking(terminal: Terminal, panel: Panel) -> None:
    """Print as many columns as the terminal has room for; what decides stays."""
    table = tables.ranking(panel)
    at = table.headers.index("ratio")
    ratios = figures.aligned([row[at] for row in table.rows])
    rows = []
    for row, ratio in zip(table.rows, ratios, strict=True):
        medal = _MEDALS.get(int(row[0]), "📊") if terminal.fancy else f"{row[0]}."
        rows.append((medal, *row[1:at], ratio, *row[at + 1 :]))
    metrics = [header for header in table.headers if header not in {*tables.RANKING, tables.OUTPUT}]
    shown = replace(table, rows=tuple(rows)).filled
    right = [i for i in shown.numeric if shown.headers[i] != "ratio"]
    terminal.table(shown.headers, shown.rows, right, [shown.headers.index("ratio")], metrics)


def _print_summary(terminal: Terminal, panel: Panel) -> None:
    terminal.text("📈 Summary:", style="bold")
    lines = [f"🎯 {verdicts.ship(panel)}"]
    if first := [r for r in panel.ranked if r.rank == 1]:
        tie = " (a tie)" if len(first) > 1 else ""
        lines.append(f"🏃 Fastest {verdicts.here(panel)}: {verdicts.names(panel, first)}{tie}")
    if gain := tables.speedup(panel):
        lines.append(f"⚡ Speed improvement: {gain[0]}x over {gain[1].title}")
    lines += [
        f"⚖️ Tie at rank {group[0].rank}: {verdicts.names(panel, group)}"
        for group in tables.ties(panel)
        if group[0].rank != 1
    ]
    lines += [f"🔍 {text}" for text in (verdicts.lead(panel), verdicts.resolution([panel])) if text]
    lines += [f"⚠️ {warning}" for warning in (verdicts.disturbed(panel), *panel.warnings) if warning]
    lines += [f"⚠️ {result.title}: {warning}" for result in panel.ranked for warning in result.warnings]
    left = [(result.title, left_by_delegate(result.placement, TELLING)) for result in panel.ranked]
    lines += [f"⚠️ {title}: {text}" for title, text in left if text]
    lines += [f"🔍 {text}" for text in (*agreements(panel), *not_faster(panel))]
    for line in lines:
        terminal.text(f"   {line}")
    terminal.text()


def print_devices(terminal: Terminal, panels: Sequence[Panel]) -> None:
    """Print what to ship on each of several machines, and what changes between them."""
    table = devices.summary(panels)
    terminal.text(f"🎯 {table.title}:", style="bold")
    terminal.table(table.headers, table.rows)
    for text in machines.changes(panels):
        terminal.text(f"   {text}")


def print_study(terminal: Terminal, results: StudyResults) -> None:
    """Print a study: the fastest of each panel, the rankings with their verdicts, what has no rank and why."""
    shown = views(results)
    terminal.text(f"🚀 cross-backend study: {results.name}", style="bold")
    terminal.text("=" * 55)
    terminal.text(f"📊 {'; '.join(dict.fromkeys(_machines(results)))}")
    if found := verdicts.resolution(results.panels):
        terminal.text(f"🔍 {found}")
    if not results.finished:
        terminal.text("⚠️ Not finished: this is what was measured until now.")
    if not shown:
        terminal.text("❌ No panel was begun.")
        return
    _print_table(terminal, study_tables.overview(shown))
    _print_machines(terminal, results)
    for view in shown:
        if view.panel.ranked:
            terminal.text()
            terminal.text(f"🏆 Ranking: {view.label}", style="bold")
            _print_ranking(terminal, view.panel)
            for text in filter(None, (verdicts.ship(view.panel), verdicts.lead(view.panel))):
                terminal.text(f"   🎯 {text}")
    _print_stopped(terminal, study_tables.stopped(shown))
    _print_commands(terminal, results.panels)
    _print_table(terminal, circumstances.warnings(shown))


def _print_machines(terminal: Terminal, results: StudyResults) -> None:
    """Print the fastest of each panel by machine, and what changes between machines, where there are several."""
    if len(results.places) > 1:
        _print_table(terminal, machines.by_machine(results.panels))
        for text in machines.changes(results.panels, "machine"):
            terminal.text(f"   {text}")
        _print_table(terminal, machines.machines(results))


def _machines(results: StudyResults) -> list[str]:
    return [
        panel.machine.cpu if panel.place == "local" else f"{panel.place} ({panel.machine.cpu})"
        for panel in results.panels
    ] or [results.machine.cpu]


def _print_table(terminal: Terminal, table: Table) -> None:
    if table.rows:
        terminal.text()
        terminal.text(table.title, style="bold")
        shown = table.filled
        terminal.table(shown.headers, shown.rows, right=shown.numeric)


def _print_stopped(terminal: Terminal, table: Table) -> None:
    """Print a reason a line, not in columns: it may be a long text, with a command to be copied."""
    if table.rows:
        terminal.text()
        terminal.text(table.title, style="bold")
        for titles, outcome, where, why in table.rows:
            terminal.text(f"{outcomes.MARKS[outcome]} {titles}: {outcome} ({where}): {outcomes.sentence(why)}")
