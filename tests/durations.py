"""Durations: how long each test took in this checkout's last run, so that the next one begins with the longest.

A fresh checkout begins with what is written in ``durations.json``: seconds of the tests that took five and more.
``python -m tests.durations`` writes it from this checkout's last runs.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.surroundings import KEPT

if TYPE_CHECKING:
    import pytest

FILE = KEPT / "durations.json"
LONGEST = Path(__file__).with_name("durations.json")
AT_LEAST_S = 5


def read(*files: Path) -> dict[str, float]:
    """Return test id → seconds of its last run, set-up included; what the last of the files says counts."""
    known: dict[str, float] = {}
    for file in files or (LONGEST, FILE):
        with contextlib.suppress(OSError, ValueError):
            known |= {str(name): float(seconds) for name, seconds in json.loads(file.read_bytes()).items()}
    return known


class Durations:
    """A pytest plugin that keeps what this run saw."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seen[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self._seen:
            part = FILE.with_name(f"{FILE.name}.part")
            part.write_text(json.dumps({**read(FILE), **self._seen}), encoding="utf-8")
            part.replace(FILE)


def main() -> None:
    """Write the longest tests of this checkout's last runs for fresh checkouts."""
    longest = {test: round(seconds) for test, seconds in sorted(read(FILE).items()) if seconds >= AT_LEAST_S}
    LONGEST.write_text(json.dumps(longest, indent=0) + "\n", encoding="utf-8")
    print(f"{LONGEST.name}: {len(longest)} tests of {AT_LEAST_S} s and more")


if __name__ == "__main__":
    main()
