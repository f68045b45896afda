"""The simulated measurements that benchmarks/statistics_simulated.py draws its tables from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cross_backend.measure import latency, open_loop, throughput


@pytest.fixture(scope="session")
def simulated() -> ModuleType:
    """Give the module ``benchmarks/_simulated.py``."""
    path = Path(__file__).parents[3] / "benchmarks" / "_simulated.py"
    spec = importlib.util.spec_from_file_location("_simulated", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


class Clock:
    """Time that passes only where it is spent: what else the machine does changes nothing."""

    def __init__(self) -> None:
        self._ns = 0

    def perf_counter_ns(self) -> int:
        """Read it, which takes 100 ns."""
        self._ns += 100
        return self._ns

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clock by which all loops measure."""
    made = Clock()
    for module in (latency, open_loop, throughput):
        monkeypatch.setattr(module, "time", made)
    return made
