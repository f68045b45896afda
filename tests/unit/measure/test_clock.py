"""Clock: one for parent and child."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.measure.clock import clock_ns, import_modules, timed

if TYPE_CHECKING:
    import pytest


def test_a_child_shares_the_clock(run_python: Callable[..., str]) -> None:
    before = clock_ns()
    child = int(run_python("from cross_backend.measure.clock import clock_ns; print(clock_ns())"))
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
