"""Study tables: the rows about a study that terminal, Markdown and HTML share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cross_backend.instruments.instrument import Metrics
from cross_backend.measure.percentiles import percentiles as estimated
from cross_backend.measurement import Interval, Measurement
from cross_backend.report import figures, tables
from cross_backend.report.outcomes import reason_of
from cross_backend.report.tables import NONE, Table
from cross_backend.report.views import Row, View, proved, timed

PERCENTS = (90.0, 99.0, 99.9)
_PERCENTILES = tuple(f"P{percent:g}" for percent in PERCENTS)
WHERE = ("workload", "batch", "threads")
"""What distinguishes panels of one machine; columns of tables that hold several."""
RANKING = (
    "rank",
    "backend",
    "ratio",
    "median",
    "95 % interval",
    *_PERCENTILES,
    "runs",
    "max error",
    "SQNR dB",
    "size",
    "coverage",
    "on device",
    "precision",
    "load",
)
"""Columns of a panel's ranking, what decides first; then the task metrics, and the note."""


def where(view: View) -> tuple[str, str, str]:
    """Return the cells of :data:`WHERE`."""
    return view.panel.workload, str(view.panel.batch), str(view.panel.settings.get("threads", NONE))


def by_machine(table: Table, places: Sequence[str]) -> Table:
    """Return a table whose rows are of panels with the machine of each, where there are several.

    Args:
        table: begins with :data:`WHERE`.
        places: of each row.
    """
    if len(set(places)) < 2:
        return table
    rows = tuple((place, *row) for place, row in zip(places, table.rows, strict=True))
    return Table(table.title, ("machine", *table.headers), rows, tuple(index + 1 for index in table.numeric))


def ranking(view: View) -> Table:
    """Return a row per result that has figures, the best first; :func:`stopped` lists the others."""
    tasks = tables.costs(row.result for row in view.rows)
    headers = (*RANKING, *tasks, "note")
    rows = tuple(cells(row, tasks) for row in view.rows if row.has_figures)
    texts = {"backend", "precision", "note"}
    return Table("Ranking", headers, rows, tuple(i for i, header in enumerate(headers) if header not in texts))


def cells(row: Row, tasks: Sequence[str]) -> tuple[str, ...]:
    """Return the cells of :data:`RANKING`, of the task metrics, and the note."""
    result, execution = row.result, row.result.execution
    told = tables.cells(result) | {
        "rank": str(result.rank) if result.rank is not None else NONE,
        "backend": result.title,
        "on device": tables.percent(execution.share if execution else None),
        "precision": result.precision or NONE,
    }
    if timed(result) and result.latency is not None:
        told |= zip(_PERCENTILES, percentiles(result.latency), strict=True)
    else:
        told |= dict.fromkeys(RANKING[2 : RANKING.index("runs") + 1], NONE)
    scores = (tables.cost(result, name) if proved(result) else NONE for name in tasks)
    return (*(told[header] for header in RANKING), *scores, note(row))


def percentiles(latency: Measurement) -> tuple[str, ...]:
    """Return each of :data:`PERCENTS` with its interval, or how many samples it would need."""
    found = {row.percent: row for row in estimated(latency, PERCENTS)}
    texts = []
    for percent in PERCENTS:
        row = found[percent]
        if row.value is None or row.low is None or row.high is None:
            texts.append(f"needs n ≥ {row.needs:,}" if row.needs else NONE)
        else:
            known = Interval(row.value / 1e6, row.low / 1e6, row.high / 1e6)
            texts.append(f"{figures.duration(known.value, known)} {figures.interval(known)}")
    return tuple(texts)


def note(row: Row) -> str:
    """Return why a result has no rank, and what else a reader should know of it."""
    result = row.result
    parts = [f"{result.outcome}: {reason_of(result)}"] if result.outcome != "OK" else []
    if result.outcome == "OK":
        parts += [text for text in (result.unranked, result.reason) if text]
        if result.comparison is None:
            parts.append("not verified, so no figure is shown")
        elif result.execution is not None and result.execution.functional_only:
            parts.append(f"functional check only: {result.execution.functional_only}")
        elif result.rank is None and not parts:
            parts.append("verified, not measured")
    return "; ".join(dict.fromkeys(parts))


def overview(views: Sequence[View]) -> Table:
    """Return a row per panel: the fastest, by how much, what difference would be found, and how many have a rank."""
    rows = []
    for view in views:
        first = view.first
        latency = first[0].result.latency_ms if first else None
        after = next((result for result in view.panel.ranked if result.rank != 1), None)
        gain = tables.speedup(view.panel)
        found = view.panel.found_from
        rows.append(
            (
                *where(view),
                " = ".join(row.result.title for row in first) or "nothing could be ranked",
                figures.duration(latency.value, latency) if latency else NONE,
                f"{figures.ratio(after.ratio)} ({after.title})" if after and after.ratio else NONE,
                f"{gain[0]} ({gain[1].title})" if gain else NONE,
                "not measured" if found is None else figures.share(found),
                f"{len(view.panel.ranked)} of {len(view.rows)}",
            )
        )
    headers = (*WHERE, "fastest", "median", "ratio of the next", "speedup", "smallest detectable difference", "ranked")
    table = Table("Fastest of each panel", headers, tuple(rows), (1, 2, 4, 7, 8))
    return by_machine(table, [view.panel.place for view in views])


def stopped(views: Sequence[View]) -> Table:
    """Return what has no rank and why: a reason once, with all targets that it stopped, and where."""
    found = []
    for view in views:
        for row in view.stopped:
            outcome = str(row.result.outcome)
            found.append((view, row.result.title, (outcome, note(row).removeprefix(f"{outcome}: "))))
    rows = tuple((titles, outcome, at, why) for titles, at, (outcome, why) in _once(found, len(views)))
    return Table("Without a rank, and why", ("backend", "outcome", "where", "why"), rows)


def _once(found: Iterable[tuple[View, str, tuple[str, ...]]], panels: int) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return what was found of (panel, target) once: all targets that have it in the same panels, and in which."""
    panels_at: dict[tuple[tuple[str, ...], str], list[View]] = {}
    for view, title, what in found:
        panels_at.setdefault((what, title), []).append(view)
    titles: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (what, title), at in panels_at.items():
        where_text = "all panels" if len(at) == panels > 1 else ", ".join(dict.fromkeys(_short(view) for view in at))
        titles.setdefault((what, where_text), []).append(title)
    return [(", ".join(named), at, what) for (what, at), named in titles.items()]


def _short(view: View) -> str:
    place = f" on {view.panel.place}" if view.panel.place != "local" else ""
    return f"{view.panel.workload} ×{view.panel.batch}{place}"


def instrument(views: Sequence[View], metrics: Metrics, title: str = "") -> Table | None:
    """Return the medians of an instrument's metrics by target, or why there are none; None where nothing is known.

    Args:
        views: panels.
        metrics: of one instrument.
        title: of the table; its own where empty.
    """
    title, prefix = title or metrics.title, metrics.prefix
    parts = _parts(views, prefix, tuple(metrics.parts))
    if not parts:
        return _nothing_measured(views, title, prefix)
    rows, places = [], []
    for view in views:
        for row in view.rows:
            why = _why_not(row, prefix)
            medians = []
            for part in parts:
                found = row.measurement(f"{prefix}.{part}" if part else prefix)
                medians.append(tables.quantity(found.median, found.unit) if found else NONE)
            if why or any(text != NONE for text in medians):
                rows.append((*where(view), row.label, *medians, why))
                places.append(view.panel.place)
    headers = (*WHERE, "backend", *(metrics.parts.get(part, part.replace("_", " ")) for part in parts), "why not")
    return by_machine(Table(title, headers, tuple(rows), (1, 2, *range(4, 4 + len(parts)))), places)


def _nothing_measured(views: Sequence[View], title: str, prefix: str) -> Table | None:
    """Return why an instrument gave nothing at all, a reason once; None where nothing is known."""
    found = ((view, row.label, (_why_not(row, prefix),)) for view in views for row in view.rows)
    once = _once((one for one in found if any(one[2])), len(views))
    rows = tuple((titles, at, why) for titles, at, (why,) in once)
    return Table(title, ("backend", "where", "why not"), rows) if rows else None


def _why_not(row: Row, prefix: str) -> str:
    """Return why figures of an instrument are missing, and what one has to know of those that are not."""
    notes = [text for name, text in row.result.notes.items() if name.partition(".")[0] == prefix]
    return "; ".join(filter(None, (absences(row, prefix), *notes)))


def _parts(views: Sequence[View], prefix: str, order: Sequence[str]) -> list[str]:
    found = {
        metric.metric.removeprefix(prefix).removeprefix(".")
        for view in views
        for row in view.rows
        for metric in row.result.measurements
        if metric.metric.partition(".")[0] == prefix and metric.count
    }
    return [part for part in order if part in found] + sorted(found - set(order), key=natural)


def natural(text: str) -> list[tuple[int, str]]:
    """Return a key that puts ``streams_2`` before ``streams_10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text) if part]


def absences(row: Row, prefix: str) -> str:
    """Return why an instrument, or some of its metrics, gave nothing."""
    named = {name: why for name, why in row.result.absent.items() if name.partition(".")[0] == prefix}
    if len(set(named.values())) == 1:
        return next(iter(named.values()))
    return "; ".join(f"{name.partition('.')[2] or name}: {why}" for name, why in named.items())


def placement(view: View) -> Table:
    """Return where each target's operators went: delegated, left and why, and what ran elsewhere."""
    rows = []
    for row in view.rows:
        held, ran = row.result.placement, row.result.execution
        if held is None and ran is None:
            continue
        left = [f"{o.count} × {o.name}{f' ({o.why})' if o.why else ''}" for o in held.left] if held else []
        rows.append(
            (
                row.result.title,
                ", ".join(f"{count} × {name}" for name, count in held.delegates.items()) or NONE if held else NONE,
                str(held.inside_count) if held else NONE,
                str(held.left_count) if held else NONE,
                tables.percent(held.coverage if held else None),
                tables.percent(held.flop_coverage if held else None),
                ran.device if ran else NONE,
                tables.percent(ran.share if ran else None),
                "; ".join([*left, *(f"{n} × {name} ran elsewhere" for name, n in (ran.elsewhere if ran else ()))])
                or NONE,
            )
        )
    counts = ("covered", "not covered", "coverage", "of FLOPs")
    headers = ("backend", "delegates", *counts, "device", "on device", "why not")
    return Table("Placement", headers, tuple(rows), (2, 3, 4, 5, 7))
