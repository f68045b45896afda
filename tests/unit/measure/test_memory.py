"""Memory: the peak is that since loading, shared pages count by share, and what is given back is not retained."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from cross_backend.measure import memory

MB = 1_000_000
linux = pytest.mark.skipif(sys.platform != "linux", reason="the figures are Linux' own")

PEAK = """
import json
from cross_backend.measure import memory
before = memory.begin()
held = b"x" * 200_000_000
with_it = memory.rss_bytes()
del held
memory.give_back_freed()
figures = [before, with_it, memory.rss_bytes(), memory.peak_rss_bytes()]
print(json.dumps([*figures, memory.begin(), memory.peak_rss_bytes()]))
"""
SHARED = """
import json, os
from cross_backend.measure import memory
held = b"x" * 200_000_000
alone = memory.pss_bytes()
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.close(write)
    os.read(read, 1)
    os._exit(0)
print(json.dumps([alone, memory.pss_bytes(), memory.rss_bytes()]))
os.close(write)
os.waitpid(child, 0)
"""


@linux
def test_the_peak_is_that_since_it_was_forgotten(run_python: Callable[..., str]) -> None:
    before, with_it, after, peak, forgotten, peak_then = json.loads(run_python(PEAK))
    assert 195 * MB < with_it - before < 210 * MB
    assert abs(peak - with_it) < 1 * MB
    assert abs(after - before) < 10 * MB, "what was given back is not retained"
    assert peak_then < forgotten + 10 * MB < peak - 150 * MB, "an earlier peak does not count"


@linux
def test_a_page_that_two_processes_share_counts_half(run_python: Callable[..., str]) -> None:
    alone, shared, resident = json.loads(run_python(SHARED))
    assert alone > 200 * MB
    assert 95 * MB < alone - shared < 130 * MB
    assert resident > 200 * MB


def test_figures_of_this_process_are_in_bytes() -> None:
    import psutil

    assert memory.rss_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)
    assert memory.peak_rss_bytes() >= memory.rss_bytes() * 0.95
