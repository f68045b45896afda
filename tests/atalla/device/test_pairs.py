"""Random hardware and small programs: each pair ends, or is refused and runs in what the refusal names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.atalla.device.pairs import pairs, write_programs


@pytest.mark.slow
def test_some_pairs_end(tmp_path: Path) -> None:
    tally = pairs(3000, 3, write_programs(tmp_path, 4, networks=False))
    assert tally.ran == 3000 and tally.larger == 375 and tally.with_data == 188 and tally.refused > 30


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("half", [0, 1])
def test_many_pairs_end(half: int, tmp_path: Path) -> None:
    """Half of them each, the second by the best instruction set; ``ATALLA_PAIRS=1000000`` tries so many."""
    count = int(os.environ.get("ATALLA_PAIRS", "200000")) // 2
    isa = ("base", "-")[half]
    tally = pairs(count, 1, write_programs(tmp_path, 16, networks=True), isa=isa, first=count * half)
    assert tally.ran == count
