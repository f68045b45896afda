"""The simulated measurements that benchmarks/statistics_simulated.py draws its tables from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


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
