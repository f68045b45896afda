"""What the benchmarks share: a table on standard output and the machine it was measured on."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.machine import Machine
from cross_backend.report.terminal import Terminal


def show(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print one table; all columns but the first are numbers."""
    machine, terminal = Machine.here(), Terminal()
    terminal.text(f"{title} ({machine.cpu}, {machine.usable_cpus} processors, Python {machine.python})")
    terminal.table(headers, rows, right=range(1, len(headers)))
