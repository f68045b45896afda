"""Random hardware and small programs: each pair ends, or is refused and runs in what the refusal names."""

from __future__ import annotations

import pytest

from tests.atalla.device.pairs import pairs

pytestmark = pytest.mark.usefixtures("library")


@pytest.mark.parametrize(("count", "seed"), [(300, 3), pytest.param(20_000, 1, marks=pytest.mark.slow)])
def test_every_pair_ends(count: int, seed: int) -> None:
    tally = pairs(count, seed)
    assert tally.ran == count and tally.larger > count // 10
