"""Placement: what a finished payload does where, and why not elsewhere; shared by ``explain`` and ``inspect``."""

from __future__ import annotations

from collections.abc import Iterator

from cross_backend.placement import Operators, Placement
from cross_backend.report import low_precision, tables
from cross_backend.report.terminal import Terminal

TELLING = 0.01
"""The share of the floating point operations from which on what is left is told of where targets are compared."""
LINES = 3
"""Lines of the user's Python shown for each group of operators."""


def facts(placement: Placement) -> list[tuple[str, str]]:
    """Return (what, value) rows: delegates, coverage, memory."""
    counts = f"{placement.inside_count} of {placement.inside_count + placement.left_count}"
    rows = [
        ("delegates", ", ".join(f"{name} × {count}" for name, count in placement.delegates.items()) or "none"),
        ("coverage", f"{tables.percent(placement.coverage)} of the operators: {counts}"),
    ]
    if placement.flop_coverage is not None:
        rows.append(("", f"{tables.percent(placement.flop_coverage)} of the floating point operations"))
    if placement.without_kernel:
        rows.append(("runs nowhere", f"no runtime has a kernel for {', '.join(placement.without_kernel)}"))
    memory = (
        ("planned memory", placement.planned_bytes, "activations outside delegates"),
        ("constants", placement.constant_bytes, "outside delegates"),
        ("delegate data", placement.delegate_bytes, "blobs and weights"),
    )
    rows += [(name, f"{tables.size(value)} ({what})") for name, value, what in memory if value is not None]
    return [*rows, *low_precision.facts(placement)]


def left_by_delegate(placement: Placement | None, least: float = 0.0) -> str:
    """Return a sentence on what a delegate leaves to its runtime; empty where it leaves nothing.

    Args:
        placement: the payload's, if it has one.
        least: only where at least this share of the floating point operations is left.
    """
    if placement is None or not placement.delegates or not placement.left:
        return ""
    share = 1 - (1.0 if placement.flop_coverage is None else placement.flop_coverage)
    if share < least:
        return ""
    what = (
        f"{tables.percent(share)} of the floating point operations"
        if share >= TELLING
        else (f"{placement.left_count} operator{'s' if placement.left_count > 1 else ''}")
    )
    run = "runs" if share < TELLING and placement.left_count == 1 else "run"
    return f"{what} {run} outside of the delegate, on the runtime's plain loops, which can take many times as long."


def print_operators(terminal: Terminal, placement: Placement) -> None:
    """Print what is delegated, and what is not: grouped, most expensive first, with reason and Python line."""
    if placement.left:
        terminal.text()
        terminal.text("Not delegated, most expensive first", style="bold")
        if text := left_by_delegate(placement):
            terminal.text(text)
        rows = [row for operators in placement.left for row in _rows(operators)]
        terminal.table(("operator", "count", "FLOPs", "why", "made by"), rows, right=[1, 2])
    if placement.inside:
        terminal.text()
        terminal.text("Covered", style="bold")
        terminal.table(("operator", "count"), [(o.name, str(o.count)) for o in placement.inside], right=[1])


def _rows(operators: Operators) -> Iterator[tuple[str, str, str, str, str]]:
    """Return the row of what is not delegated, and below it one for each further line."""
    shown, more = operators.lines[:LINES], len(operators.lines) - LINES
    first, *further = [*shown, *([f"… and {more} more"] if more > 0 else [])] or [""]
    flops = "–" if operators.flops is None else f"{operators.flops:,}"
    yield operators.name, str(operators.count), flops, operators.why or "", first
    for line in further:
        yield "", "", "", "", line
