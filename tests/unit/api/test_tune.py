"""Tune from Python: a program that the caller holds, within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cross_backend as xb


@pytest.mark.slow
def test_a_program_is_tuned(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        program = xb.capture(torch.nn.Linear(4, 2), (torch.ones(1, 4),))
    tuned = xb.tune(
        program,
        ["cpu", "torch"],
        name="net",
        precisions=["fp32"],
        threads=[1],
        seconds=0.5,
        launches=2,
        db=str(tmp_path / "s.sqlite"),
    )
    assert tuned.workload == "net" and len(tuned.tried) == 2
    assert tuned.winner is not None and tuned.winner.fits
    assert tuned.command is not None and tuned.command.startswith("cross-backend export ")


def test_a_trusted_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(xb.CrossBackendError, match=r"no\.pt2 does not exist"):
        xb.tune(tmp_path / "no.pt2", ["cpu"], trust=True, db=str(tmp_path / "s.sqlite"))
