"""Progress: what a long command shows on standard error: bars and a table that settles, or lines for a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cross_backend.foreign_text import plain
from cross_backend.report.tables import Table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

BAR = 24
"""Characters of a bar; a narrow terminal has none."""
NARROW = 120
"""Below so many characters a line has its text and the time left, and no bar."""
REFRESHES_PER_S = 4.0
"""Few, because the processors belong to what is measured."""


class Show:
    """What is shown; called as ``show(key, text, share)``: a line per key, which a share of 1 ends and None spins."""

    def __call__(self, key: str, text: str, share: float | None, left: str = "") -> None:
        """Show what a key's work does now.

        Args:
            key: of the work.
            text: what is being done.
            share: of the work that is done, 0 to 1; None where unknown.
            left: the time left in words; empty where unknown.
        """

    def table(self, table: Table | None) -> None:
        """Show a table above the lines, instead of the last one."""


class Lines(Show):
    """One plain line per finished key, for a log."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def __call__(self, key: str, text: str, share: float | None, left: str = "") -> None:  # noqa: ARG002
        """Print the line of what ended."""
        if share == 1:
            self._note(text)


@contextmanager
def bars(console: Console) -> Iterator[Show]:
    """Return what shows lines that move, and clean up afterwards."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TaskID, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.table import Column
    from rich.table import Table as Grid

    class Bars(Progress):
        table: Table | None = None

        def get_renderables(self) -> Iterable[RenderableType]:
            """Return the table, a line that parts it, and the lines of the work."""
            if self.table is not None:
                grid = Grid(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
                for index, header in enumerate(self.table.headers):
                    grid.add_column(header, justify="right" if index in self.table.numeric else "left", no_wrap=True)
                for row in self.table.rows:
                    grid.add_row(*map(plain, row))
                yield from (grid, "")
            yield self.make_tasks_table(self.tasks)

    class Left(TextColumn):
        def render(self, task: Task) -> str:  # type: ignore[override]
            """Return the time left."""
            left = task.fields.get("left")
            return f"about {left} left" if left and not task.finished else ""

    columns = (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        *([BarColumn(bar_width=BAR)] if console.width >= NARROW else []),
        Elapsed(table_column=Column(no_wrap=True)),
        Left("", table_column=Column(no_wrap=True)),
    )
    moving = Bars(*columns, console=console, transient=True, expand=True, refresh_per_second=REFRESHES_PER_S)
    tasks: dict[str, TaskID] = {}

    class Moving(Show):
        def __call__(self, key: str, text: str, share: float | None, left: str = "") -> None:
            if key not in tasks:
                tasks[key] = moving.add_task(plain(text), total=None)
            amount = {} if share is None else {"total": 1.0, "completed": share}
            moving.update(tasks[key], description=plain(text), left=left, **amount)  # type: ignore[arg-type]

        def table(self, table: Table | None) -> None:
            moving.table = table

    with moving:
        yield Moving()
