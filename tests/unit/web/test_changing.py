"""The chart of two studies: what it draws, what it leaves out, and intervals that end nowhere."""

from __future__ import annotations

from cross_backend.measurement import Interval
from cross_backend.study.diff import CellVerdict, Diff, DiffRow
from cross_backend.web.changing import change_chart


def drawn(*rows: tuple[CellVerdict, Interval | None]) -> str | None:
    cells = tuple(DiffRow("net", 1, 1, f"target{i}", verdict, ratio=ratio) for i, (verdict, ratio) in enumerate(rows))
    chart = change_chart(Diff("a", "b", cells, ()))
    return None if chart is None else str(chart.svg)


def test_cells_are_drawn_slowest_first() -> None:
    svg = drawn((CellVerdict.SAME, Interval(1.0, 0.9, 1.1)), (CellVerdict.SLOWER, Interval(2.0, 1.8, 2.2)))
    assert svg is not None and svg.index("net, target1") < svg.index("net, target0")


def test_a_cell_that_fails_is_in_the_table_alone() -> None:
    assert drawn((CellVerdict.NOW_FAILS, None)) is None


def test_an_interval_without_end_leaves_the_others_their_room() -> None:
    endless = drawn(
        (CellVerdict.CANNOT_TELL, Interval(1.0, 1e-260, 1e260)), (CellVerdict.SAME, Interval(1.0, 0.9, 1.1))
    )
    assert endless is not None and "nan" not in endless and "inf" not in endless
    assert ">0.5<" in endless and ">2<" in endless, "the axis goes from a quarter to four"
