"""Cold start: one clock for parent and child, every step once, nothing claimed that was not cold."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.measure.cold_start import STEPS, anatomy, clock_ns, import_modules, timed

if TYPE_CHECKING:
    import pytest

OPENED = {"cold": True, "began_ns": 1_500, "import_ns": 20, "load_ns": 30, "bind_ns": 5}


def test_the_steps_of_one_start() -> None:
    found = anatomy(1_000, OPENED, {"first_ns": 40})
    assert [m.metric for m in found] == [f"cold_start.{step}" for step in STEPS]
    assert [m.values for m in found] == [(500,), (20,), (30,), (40,)]
    assert {(m.unit, len(m.rounds), m.launches) for m in found} == {("ns", 1, (1,))}


def test_what_was_not_cold_is_not_given() -> None:
    assert anatomy(1_000, {**OPENED, "cold": False}, {"first_ns": 40}) == ()
    assert [m.metric for m in anatomy(1_000, OPENED, {"first_ns": None})][-1] == "cold_start.load"


def test_a_child_shares_the_clock(run_python: Callable[..., str]) -> None:
    before = clock_ns()
    child = int(run_python("from cross_backend.measure.cold_start import clock_ns; print(clock_ns())"))
    assert before < child < clock_ns()


def test_modules_are_imported_and_a_missing_one_is_not_told_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_runtime.py").write_text("import time; time.sleep(0.05)")
    (tmp_path / "a_broken_runtime.py").write_text("raise OSError('no driver')")
    monkeypatch.syspath_prepend(tmp_path)
    _, ns = timed(lambda: import_modules(["no_such_runtime", "a_broken_runtime", "a_runtime"]))
    assert "a_runtime" in sys.modules and ns >= 50_000_000
    _, again_ns = timed(lambda: import_modules(["a_runtime"]))
    assert again_ns < 20_000_000
