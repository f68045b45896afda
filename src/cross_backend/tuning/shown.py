"""Shown: what a search prints: the unbeaten candidates, who was turned away and why, the winner and its command."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.records import Outcome
from cross_backend.report import figures, outcomes, tables
from cross_backend.report.tables import NONE, Table
from cross_backend.report.terminal import Terminal
from cross_backend.tuning.bounds import points
from cross_backend.tuning.tuned import Tried, Tuned


def print_tuned(terminal: Terminal, tuned: Tuned) -> None:
    """Print what was found on one machine."""
    place = f" on {tuned.place}" if tuned.place != "local" else ""
    terminal.text(f"🚀 cross-backend tune: {tuned.workload}{place}", style="bold")
    terminal.text("=" * 55)
    terminal.text(f"📊 {tuned.machine.cpu}; {_bounds(tuned)}")
    terminal.text(f"🔍 Accuracy: {tuned.loss.name}, {tuned.loss.about}; {_reference(tuned)}")
    terminal.text(f"⏱️ {_effort(tuned)}")
    terminal.text()
    _print_turned_away(terminal, tuned)
    if tuned.unbeaten:
        shown = pareto(tuned)
        terminal.text(f"🏆 {shown.title}:", style="bold")
        terminal.table(shown.headers, shown.rows, shown.numeric)
        terminal.text()
    if tuned.winner is not None:
        _print_winner(terminal, tuned, tuned.winner)
    elif tuned.nearest is not None:
        missed = "; ".join(map(str, tuned.nearest.misses))
        terminal.text(f"❌ No candidate meets the bounds. Nearest: {_name(tuned, tuned.nearest)}: {missed}.")
    else:
        terminal.text("❌ No candidate runs and is right here.")


def _bounds(tuned: Tuned) -> str:
    bounds = tuned.bounds
    parts = [f"drop at most {points(bounds.max_drop)}"]
    parts += [f"at most {figures.duration(bounds.max_ms)} per call"] if bounds.max_ms is not None else []
    parts += [f"file at most {tables.size(bounds.max_size)}"] if bounds.max_size is not None else []
    parts += [f"memory at most {tables.size(bounds.max_memory)}"] if bounds.max_memory is not None else []
    return ", ".join(parts)


def _reference(tuned: Tuned) -> str:
    if tuned.loss.is_error:
        return "the drop is the error itself"
    return f"float32 has {tables.score(tuned.loss.name, tuned.loss.reference)}"


def _effort(tuned: Tuned) -> str:
    count = f"{len(tuned.tried)} candidate{'s' if len(tuned.tried) > 1 else ''}"
    calls = f"{tuned.calls:,} timed calls in {tuned.launches} launches"
    share = f": {tables.percent(tuned.share)} of the calls that measuring each in full takes" if tuned.calls else ""
    return f"{count}, {calls}{share}"


def _print_turned_away(terminal: Terminal, tuned: Tuned) -> None:
    """Print why candidates did not take part, each reason once."""
    found: dict[tuple[Outcome, str], list[str]] = {}
    for one in tuned.tried:
        if one.outcome is not Outcome.OK or (one.misses and one is not tuned.nearest):
            why = "; ".join(map(str, one.misses))
            found.setdefault((one.outcome, why or one.reason or "no reason was given"), []).append(_name(tuned, one))
    for (outcome, why), names in found.items():
        mark = "⚠️" if outcome is Outcome.OK else outcomes.MARKS[outcome]
        how = "" if outcome in {Outcome.OK, Outcome.NOT_MEASURED} else f"{outcome}: "
        terminal.text(f"{mark} {', '.join(names)}: {how}{outcomes.sentence(why)}")
    if found:
        terminal.text()


def pareto(tuned: Tuned) -> Table:
    """Return a row per unbeaten candidate, fastest first."""
    batches = {one.batch for one in tuned.tried}
    several = len(batches) > 1
    headers = ("", "Backend", *(("batch", "per item") if several else ()), "ratio", "median", "95 % interval")
    headers += (tuned.loss.name, *(() if tuned.loss.is_error else ("drop",)), "size", "peak memory", "launches")
    rows = [tuple(_cells(tuned, one, several=several)) for one in tuned.unbeaten]
    title = f"Unbeaten candidates within the bounds ({len(rows)})"
    return Table(title, headers, tuple(rows), tuple(range(2, len(headers))))


def _cells(tuned: Tuned, one: Tried, *, several: bool) -> Sequence[str]:
    assert one.latency_ms is not None, "who is unbeaten was measured"
    per_item = (str(one.batch), figures.duration(one.per_item_ms or 0.0)) if several else ()
    if one.accuracy is None:
        accuracy = NONE
    else:
        accuracy = points(one.accuracy) if tuned.loss.is_error else tables.score(tuned.loss.name, one.accuracy)
    return (
        "🥇" if one is tuned.winner or one == tuned.winner else "=" if one.tied else "",
        one.title,
        *per_item,
        figures.ratio(one.ratio),
        figures.duration(one.latency_ms.value, one.latency_ms),
        figures.interval(one.latency_ms),
        accuracy,
        *(() if tuned.loss.is_error else (NONE if one.drop is None else points(one.drop),)),
        tables.size(one.size_bytes),
        tables.size(one.memory_bytes),
        str(one.launches),
    )


def _print_winner(terminal: Terminal, tuned: Tuned, winner: Tried) -> None:
    assert winner.latency_ms is not None, "it was measured"
    ms = figures.duration(winner.latency_ms.value, winner.latency_ms)
    lost = f"{'relative error' if tuned.loss.is_error else 'drop'} {points(winner.drop or 0.0)}"
    terminal.text(f"🎯 Winner: {_name(tuned, winner)}: {ms} per call, {lost}, {tables.size(winner.size_bytes)}.")
    tied = [one for one in tuned.tried if one.tied]
    named = [_name(tuned, one) for one in tied if one.launches >= winner.launches or one.unbeaten]
    if tied:
        more = (
            f"{' and ' if named else ''}{len(tied) - len(named)} with fewer launches" if len(tied) > len(named) else ""
        )
        terminal.text(f"⚖️ No detectable difference to it: {', '.join(named)}{more}.")
    terminal.text(f"📦 Export it: {tuned.command}")


def _name(tuned: Tuned, one: Tried) -> str:
    several = len({row.batch for row in tuned.tried}) > 1
    return f"{one.title}, batch {one.batch}" if several else one.title
