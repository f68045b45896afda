"""Two profiles of one model side by side, as ``explain --against`` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.records import Part, SideBySide
from cross_backend.report import tables
from cross_backend.report.terminal import Terminal

SHOWN = 12
"""Parts and lines of a table; ``--json`` has all."""
COUNTED = "A convolution or product counts with the operators that follow it, up to the next one."
OPERATORS = 2
"""Kinds of operators of a part that are shown."""


def print_side_by_side(terminal: Terminal, found: SideBySide) -> None:
    """Print the answer, then what each takes by part of the model and by line of Python."""
    terminal.text()
    terminal.text(f"📊 {found.a} against {found.b}: milliseconds of each profile", style="bold")
    terminal.text(answer(found))
    if found.reason is None:
        terminal.text(COUNTED)
        _print(terminal, "part of the model", found, found.modules)
        _print(terminal, "line of Python", found, found.lines)
        return
    for name, rows in ((found.a, found.profile_a), (found.b, found.profile_b)):
        terminal.text()
        terminal.text(name, style="bold")
        terminal.table(tables.PROFILE_HEADERS, tables.profile(rows)[: tables.PROFILE_ROWS], right=(2, 3, 4))


def answer(found: SideBySide) -> str:
    """Return the sentence that says which takes longer, and where."""
    a, b = (sum(row.ms for row in rows) for rows in (found.profile_a, found.profile_b))
    slow, fast, by = (found.b, found.a, b - a) if b > a else (found.a, found.b, a - b)
    totals = f"{slow} takes {tables.milliseconds(by)} ms more than {fast} ({tables.milliseconds(max(a, b))} against"
    text = f"{totals} {tables.milliseconds(min(a, b))} ms, as profiled)"
    if found.reason is not None:
        return f"{text}; no comparison by part: {found.reason}."
    sign = 1 if b > a else -1
    worst = [part for part in found.modules if sign * part.slower_by > 0][:3]
    where = ", ".join(f"{part.name} (+{tables.milliseconds(sign * part.slower_by)} ms)" for part in worst)
    return f"{text}, most in {where}." if where else f"{text}."


def _print(terminal: Terminal, what: str, found: SideBySide, parts: Sequence[Part]) -> None:
    terminal.text()
    rows = [
        (
            part.name,
            tables.milliseconds(part.a.ms),
            tables.milliseconds(part.b.ms),
            f"{'+' if part.slower_by > 0 else '−'}{tables.milliseconds(abs(part.slower_by))}",
            ", ".join(part.a.operators[:OPERATORS]),
            ", ".join(part.b.operators[:OPERATORS]),
        )
        for part in parts[:SHOWN]
    ]
    headers = (what, found.a, found.b, "difference", f"{found.a} runs", f"{found.b} runs")
    terminal.table(headers, rows, right=(1, 2, 3))
    if len(parts) > SHOWN:
        terminal.text(f"   … and {len(parts) - SHOWN} more; --json has all")
