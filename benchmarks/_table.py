"""What the benchmarks share: a table on standard output, and on a page where ``docs/bench.py`` asks for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cross_backend.machine import Machine
from cross_backend.report.markdown import escaped, section
from cross_backend.report.tables import Table
from cross_backend.report.terminal import Terminal

TABLES = "CROSS_BACKEND_TABLES"
"""Environment variable: the folder that takes named tables as Markdown, NAME.md."""


def show(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], name: str | None = None) -> None:
    """Print one table; all columns but the first are numbers.

    Args:
        title: What was measured, and how.
        headers: Of the columns.
        rows: Cells.
        name: The table's name in ``docs/benchmarks``; one without a name is only printed.
    """
    machine, terminal = Machine.here(), Terminal()
    where = (machine.cpu, " ".join(machine.isa), f"{machine.usable_cpus} processors", f"Python {machine.python}")
    line = f"{title} ({', '.join(filter(None, (*where, str(datetime.now(UTC).date()))))})"
    terminal.text(line)
    terminal.table(headers, rows, right=range(1, len(headers)))
    if name is not None and (folder := os.environ.get(TABLES)):
        table = Table(title, tuple(headers), tuple(map(tuple, rows)))
        with Path(folder, f"{name}.md").open("x", encoding="utf-8") as file:  # a name is one table of a run
            file.write("\n".join([escaped(line), *section(table)[1:]]).rstrip() + "\n")
