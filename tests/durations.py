"""Durations: how long each test took in this checkout's last run, so that the next one begins with the longest."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.surroundings import KEPT

if TYPE_CHECKING:
    import pytest

FILE = KEPT / "durations.json"


def read() -> dict[str, float]:
    """Return test id → seconds of its last run, set-up included; empty where nothing is known."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(FILE.read_text(encoding="utf-8"))
        return {str(name): float(seconds) for name, seconds in found.items()}
    return {}


class Durations:
    """A pytest plugin that keeps what this run saw."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seen[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self._seen:
            part = FILE.with_name(f"{FILE.name}.part")
            part.write_text(json.dumps({**read(), **self._seen}), encoding="utf-8")
            part.replace(FILE)
