"""Progress of a comparison: launch and round, a time left that is honest, and a table with the fastest on top."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cross_backend.cli import _compare_progress
from cross_backend.cli._compare_progress import Watched
from cross_backend.comparison.blocks import ROUNDS
from cross_backend.comparison.contestant import Contestant, Standing, standing
from cross_backend.comparison.settings import Settings
from cross_backend.exporting.export import Exported
from cross_backend.measurement import Measurement
from cross_backend.records import Comparison, Outcome, Result
from cross_backend.report.progress import Show
from cross_backend.report.tables import Table

STEPS = 3 + ROUNDS
"""Of a launch of two targets and a twin."""


class Seen(Show):
    """What would be shown."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, float | None, str]] = []
        self.tables: list[Table | None] = []

    def __call__(self, key: str, text: str, share: float | None, left: str = "") -> None:
        self.lines.append((text, share, left))

    def table(self, table: Table | None) -> None:
        self.tables.append(table)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give a clock that the test sets."""
    now = [0.0]
    # Only this module's: with the process's clock at 0, the event loop of a server of other tests sleeps for a day.
    monkeypatch.setattr(_compare_progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def left(watched: Watched, seen: Seen, at: list[float], when: float, step: int, settings: Settings) -> str:
    at[0] = when
    watched.progress("measure", step, settings.most_launches * STEPS)
    return seen.lines[-1][2]


def test_the_time_left_comes_from_the_rounds_then_from_the_launches(at: list[float]) -> None:
    seen, settings = Seen(), Settings(launches=2)
    watched = Watched(seen, "net", settings)
    assert left(watched, seen, at, 0.0, 0, settings) == "", "nothing says how long it takes"
    assert left(watched, seen, at, 8.0, 3, settings) == "", "targets were opened, no round is done"
    assert left(watched, seen, at, 11.0, 3 + 15, settings) == "15 s", "3 s of rounds, and another launch of 14 s"
    assert left(watched, seen, at, 14.0, STEPS, settings) == "15 s"
    assert left(watched, seen, at, 26.0, STEPS + 20, settings) == "2 s"
    assert seen.lines[-1][0] == "net: measure" and seen.lines[-1][1] == pytest.approx((STEPS + 20) / (2 * STEPS))


def test_without_a_number_of_launches_the_box_is_the_most(at: list[float]) -> None:
    seen, settings = Seen(), Settings()
    watched = Watched(seen, "net", settings)
    left(watched, seen, at, 0.0, 0, settings)
    left(watched, seen, at, 10.0, 3, settings)
    assert left(watched, seen, at, 13.0, 3 + 15, settings) == "3 to 45 s"


def test_the_table_has_the_fastest_on_top() -> None:
    seen = Seen()
    watched = Watched(seen, "net", Settings())
    watched.look(
        [Standing("Waits", "waiting"), Standing("Slow", "measured", 9.0, 10), Standing("Fast", "measured", 1.5, 1200)]
    )
    table = seen.tables[-1]
    assert table is not None and table.rows == (
        ("Fast", "measured", "1.50 ms", "1,200"),
        ("Slow", "measured", "9.00 ms", "10"),
        ("Waits", "waiting", "–", "0"),
    )


def test_a_standing_is_what_all_launches_until_now_measured() -> None:
    row = Exported("cpu", Outcome.OK)
    right = Comparison(0.0, 0.0, 100.0, 1.0, 1e-4, verdict=True)
    contestant = Contestant(row, Result("net", "cpu", "CPU", Outcome.OK))
    assert standing(contestant, []) == Standing("CPU", "waiting")
    contestant.result = Result("net", "cpu", "CPU", Outcome.OK, comparison=right)
    assert standing(contestant, [None]) == Standing("CPU", "verified")
    contestant.rounds.append((3_000_000,))
    earlier = Measurement("latency", "ns", ((1_000_000,), (2_000_000,)))
    assert standing(contestant, [earlier]) == Standing("CPU", "measured", 2.0, 3)
    contestant.result = Result("net", "cpu", "CPU", Outcome.MISMATCH, "wrong")
    assert standing(contestant, [earlier]) == Standing("CPU", "MISMATCH")
