"""``Call``: a program that runs elsewhere is timed there; every other one by the clock around its call."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cross_backend.backend import CallElsewhere
from cross_backend.bench.call import Call, Called
from cross_backend.bench.shared import Reader, Writer
from cross_backend.tensors import Tensors

FAR_S = 0.05
OUTPUTS = (np.ones(2, np.float32),)


class _Elsewhere(CallElsewhere):
    def __call__(self) -> Tensors:
        time.sleep(FAR_S)
        return OUTPUTS

    def sample(self, calls: int, warm_up: int, seconds: float) -> list[int]:
        raise AssertionError("one call was asked for")

    def timed(self) -> tuple[Tensors, int]:
        return self(), 1_000


def call(run: Any, folder: Path) -> Called:
    """Return the times of one call, and compare what it handed out."""
    opened: Any = SimpleNamespace(session=SimpleNamespace(bind=lambda _inputs: run))
    called = Call(Writer(folder, "inputs").hand(OUTPUTS), folder).read(opened)
    assert Reader().take(called.outputs)[0].tolist() == [1, 1]
    return called


def test_what_runs_elsewhere_says_itself_what_it_took(tmp_path: Path) -> None:
    assert call(_Elsewhere(), tmp_path).run_ns == 1_000


def test_a_call_of_this_process_is_timed_around(tmp_path: Path) -> None:
    def run() -> Tensors:
        time.sleep(FAR_S)
        return OUTPUTS

    assert call(run, tmp_path).run_ns >= FAR_S * 1e9
