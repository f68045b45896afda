"""When the runner begins to measure, and how many calls it times in each round: by the Python package's own rule."""

import re
import subprocess

import numpy as np
import pytest

from cross_backend.comparison.launch import plan_blocks
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.warm_up import WARM_SERIES, WARM_UP_CALLS, until_steady
from cross_backend.measure.steady import FEWEST_CALLS, steady_from
from tests import needs
from tests.e2e.runner.bundles import PORTABLE, QUICK, probe

EVER_SLOWER = """
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  static long long ns = 0, step = 1000;
  (void)clock;
  step += 10;
  ns += step;
  now->tv_sec = ns / 1000000000;
  now->tv_nsec = ns % 1000000000;
  return 0;
}
"""

SHAPES = {
    "level": lambda k: np.ones(len(k)),
    "first call": lambda k: np.where(k == 0, 50.0, 1.0),
    "sudden": lambda k: np.where(k < 20, 2.0, 1.0),
    "small step": lambda k: np.where(k < 40, 1.04, 1.0),
    "exponential": lambda k: 1 + 2 * np.exp(-k / 8),
    "trend": lambda k: 1 + 0.8 * k / len(k),
    "endless": lambda k: 1 + 0.01 * k,
    "slow trend": lambda k: 1 + 0.04 * k / len(k),
    "late jump": lambda k: np.where(k < 0.85 * len(k), 1.0, 1.3),
    "late end": lambda k: np.where(k < 0.64 * len(k), 1.5, 1.0),
    "cycle": lambda k: np.where(k // 15 % 2, 1.0, 1.3),
}


def drawn(rng, shape, calls, noise):
    """Durations of calls, nanoseconds, some of them disturbed."""
    outliers = np.where(rng.random(calls) < 0.03, rng.exponential(0.5, calls), 0.0)
    level = SHAPES[shape](np.arange(calls)) * np.exp(rng.normal(0, noise, calls) + (outliers if noise else 0.0))
    return [int(1e6 * value) for value in level]


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.03, 0.2])
def test_steady_state_is_that_of_the_python_package(noise, built):
    rng = np.random.default_rng(7)
    lengths = (FEWEST_CALLS - 1, FEWEST_CALLS, 31, 50, 59, 60, 77, 150, 300)
    series = [
        drawn(rng, shape, calls, noise) for shape in SHAPES for calls in lengths for _ in range(3 if noise else 1)
    ]
    series += [[], [0.0] * 50, [1.0] * 50, [0.1] * 299]
    wanted = [steady_from(values) for values in series]
    assert probe(built, {"steady": series}) == wanted
    assert {None, 0} < set(wanted), "some are steady later"


@pytest.mark.parametrize("unit", [1e-3, 1, 30])
def test_warm_up_is_that_of_the_python_package(unit, built):
    """Of calls of a microsecond, a millisecond and 30 ms: the calls or the seconds end what never is steady."""
    rng = np.random.default_rng(3)
    series = []
    for shape in SHAPES:
        for calls in (60, 250, 4000, WARM_UP_CALLS):
            some = [int(unit * value) for value in drawn(rng, shape, calls, 0.02)]
            series.append(some + some[-1:] * (WARM_UP_CALLS - calls))
    found = probe(built, {"warm_up": series})
    for values, one in zip(series, found, strict=True):
        asked, left = [], iter(values)

        def take(count, asked=asked, left=left):
            asked.append(count)
            return [value for _, value in zip(range(count), left, strict=False)]

        estimate_ms, warning = until_steady(take)
        assert one["estimate_ms"] == pytest.approx(estimate_ms, rel=1e-12)
        assert (one["warning"] or None, one["asked"]) == (warning, asked)
    assert {len(one["asked"]) for one in found} >= {1, 2}
    assert any(one["warning"] for one in found)


def test_a_few_slow_calls_are_not_judged(built):
    """As in Python, where two seconds are over before there are enough of them."""
    (found,) = probe(built, {"warm_up": [[3_000_000_000]]})
    assert found == {"estimate_ms": 3000.0, "warning": "", "asked": [WARM_SERIES]}


def test_calls_of_each_round_are_those_of_the_python_package(built):
    """A slow artifact takes part in few rounds, and a faster one in all of these."""
    plans = [
        (e, n, s) for e in (0.0, 0.01, 1, 49, 100, 170, 400, 5e3) for n in (1, 6, 29, 60, 1000) for s in (0.5, 5.0)
    ]
    found = probe(built, {"blocks": plans})
    assert found == [plan_blocks(e, Settings(num_runs=n, seconds=s, launches=1)) for e, n, s in plans]


def test_what_never_is_steady_has_a_warning(sound, runner, rows, tmp_path):
    """Each reading of this clock takes longer than the one before."""
    source, library = tmp_path / "clock.c", tmp_path / "libclock.so"
    source.write_text(EVER_SLOWER)
    subprocess.run([needs.program("cc"), "-shared", "-fPIC", "-o", library, source], check=True)
    arguments, extra = (sound, "--only", PORTABLE, *QUICK), {"LD_PRELOAD": str(library)}
    (warning,) = rows(*arguments, **extra)[PORTABLE]["warnings"]
    assert re.fullmatch(r"not steady after 1\d,\d{3} calls, 1\.\d s, of warm-up", warning)
    shown = runner(*arguments, **extra)
    assert shown.returncode == 0
    assert f"   [warn] Portable (Reference): {warning}\n" in shown.stdout
