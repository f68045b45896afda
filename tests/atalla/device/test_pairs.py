"""Random hardware and small programs: each pair ends, or is refused and runs in what the refusal names."""

from __future__ import annotations

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
def test_a_million_pairs_end(half: int, tmp_path: Path) -> None:
    """Half of them each; the second by the best instruction set."""
    isa = ("base", "-")[half]
    tally = pairs(500_000, 1, write_programs(tmp_path, 16, networks=True), isa=isa, first=500_000 * half)
    assert tally.ran == 500_000
