"""Agreement: what two targets answer on the same inputs, and how alike it is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.errors import RunError
from cross_backend.instruments.agreement import INPUTS, agreement, many_inputs
from cross_backend.records import Outcome
from cross_backend.tensors import save_tensors

SCORES = np.array([[0.0, 1, 2, 3, 4, 5, 6]], np.float32)


def _written(folder: Path, *answers: list[np.ndarray]) -> Path:
    folder.mkdir()
    for index, outputs in enumerate(answers):
        save_tensors(folder / f"{index}.npz", {"output": outputs})
    return folder


def test_classes_and_noise_are_counted_over_all_inputs(tmp_path: Path) -> None:
    other, far = SCORES[:, [0, 1, 2, 3, 4, 6, 5]], SCORES[:, [6, 1, 2, 3, 4, 5, 0]]
    wanted = _written(tmp_path / "a", *[[SCORES, np.ones(2, np.float32)]] * 4)
    found = _written(tmp_path / "b", *[[x, np.ones(2, np.float32)] for x in (SCORES, other, SCORES, far)])
    told = agreement("x", wanted, found, 4)
    assert (told.reference, told.inputs, told.top1, told.top5, told.worst) == ("x", 4, 0.5, 0.75, 3)
    signal = float(np.square(SCORES).sum())
    assert told.sqnr_db == pytest.approx((10 * math.log10(4 * signal / (2 + 72)), math.inf))
    assert told.worst_db == pytest.approx(10 * math.log10(signal / 72))
    assert told.to_json()["sqnr_db"][1] is None


def test_what_is_no_score_a_class_has_no_top(tmp_path: Path) -> None:
    picture = np.ones((1, 3, 4, 4), np.float32)
    wanted = _written(tmp_path / "a", [picture], [picture])
    told = agreement("x", wanted, _written(tmp_path / "b", [picture], [picture * math.nan]), 2)
    assert (told.top1, told.top5, told.sqnr_db, told.worst) == (None, None, (-math.inf,), 1)
    with pytest.raises(RunError, match="returns other outputs than x"):
        agreement("x", wanted, _written(tmp_path / "c", [picture[0]], [picture[0]]), 2)


def test_inputs_beyond_the_calibration_are_drawn_like_the_sample() -> None:
    tokens, mask = np.array([[5, 9, 11, 5]], np.int64), np.array([[1, 1, 1, 0]], np.int64)
    values = np.full((1, 4), 3.0, np.float32) + np.arange(4, dtype=np.float32)
    rows = many_inputs([(tokens, mask, values)], (tokens, mask, values))
    assert len(rows) == INPUTS and rows[0][0] is tokens
    for drawn in rows[1:]:
        assert set(drawn[0].reshape(-1)) <= {5, 9, 11} and np.array_equal(drawn[1], mask)
        assert [x.dtype for x in drawn] == [np.int64, np.int64, np.float32] and drawn[2].shape == (1, 4)
    assert len({drawn[2].tobytes() for drawn in rows}) == INPUTS
    assert len(many_inputs([(values,)] * 40, (values,))) == INPUTS


@pytest.mark.slow
def test_lower_precision_is_laid_beside_float32() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()
        program = xb.capture(net, (torch.randn(1, 16),))
    targets = ["cpu", "cpu?precision=int8", "torch?precision=int8dyn"]
    panel = xb.compare(program, targets, num_runs=6, seconds=0.2)
    full, *low = panel.results
    assert full.agreement is None and all(one.outcome is Outcome.OK for one in panel.results)
    for one in low:
        assert one.agreement is not None, one.absent
        assert (one.agreement.reference, one.agreement.inputs) == (full.target, INPUTS)
        assert one.agreement.top1 is not None and 0.5 < one.agreement.top1 <= 1
        assert 5 < one.agreement.sqnr_db[0] < 80, "int8 observed the one sample alone"
    (alone,) = xb.compare(program, ["cpu?precision=int8"], num_runs=6, seconds=0.2).results
    assert alone.agreement is None and "no float32 target runs" in alone.absent["agreement"]
