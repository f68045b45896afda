"""Agreeing: how close targets of lower precision are to float32 in one launch, where the model has no task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cross_backend.cache import Cache
from cross_backend.comparison.contestant import Contestant
from cross_backend.errors import CrossBackendError, one_line
from cross_backend.instruments.agreement import INPUTS, MOST_BYTES, SECONDS, Answers, agreement, many_inputs
from cross_backend.program.captured import Captured
from cross_backend.records import Outcome
from cross_backend.tensors import load_tensors, save_tensors

NAME = "agreement"


def agree(contestants: Sequence[Contestant], captured: Captured, cache: Cache) -> None:
    """Run the fastest float32 target and every target of lower precision on many inputs, and compare the answers."""
    running = [one for one in contestants if one.bench is not None and one.result.outcome is Outcome.OK]
    low = [one for one in running if one.result.precision not in {None, "fp32"}]
    full = sorted((one for one in running if one.result.precision in {None, "fp32"}), key=lambda one: one.estimate_ms)
    if not low:
        return
    if not full:
        _leave_out(low, "no float32 target runs beside it")
        return
    with cache.scratch() as folder:
        inputs = folder / "inputs.npz"
        sample = load_tensors(captured.sample_path)["input"]
        rows = many_inputs(captured.calibration(), sample)
        save_tensors(inputs, {f"input{index}": row for index, row in enumerate(rows)})
        reference = full[0]
        most = _affordable(captured, [reference, *low])
        wanted = _answers(reference, inputs, folder / "reference", most)
        if wanted is None:
            _leave_out(low, f"{reference.result.target}: {reference.result.absent[NAME]}")
            return
        for number, one in enumerate(low):
            found = _answers(one, inputs, folder / str(number), most)
            if found is not None:
                try:
                    told = agreement(reference.result.target, wanted, found, most)
                    one.result = replace(one.result, agreement=told)
                except CrossBackendError as error:
                    _leave_out([one], one_line(error))


def _leave_out(contestants: Sequence[Contestant], why: str) -> None:
    for one in contestants:
        one.result = replace(one.result, absent={**one.result.absent, NAME: why})


def _affordable(captured: Captured, contestants: Sequence[Contestant]) -> int:
    """Return on how many inputs all of them are run."""
    size = sum(x.nbytes for x in load_tensors(captured.sample_path)["expected"])
    slowest_ms = max((one.estimate_ms for one in contestants if math.isfinite(one.estimate_ms)), default=0.0)
    by_time = int(SECONDS * 1000 / slowest_ms) if slowest_ms else INPUTS
    by_size = MOST_BYTES // max(int(size), 1)
    return max(1, min(INPUTS, by_time, by_size))


def _answers(contestant: Contestant, inputs: Path, folder: Path, most: int) -> Path | None:
    folder.mkdir()
    assert contestant.bench is not None, "it runs"
    try:
        contestant.bench.take(Answers(inputs, folder, most))
    except CrossBackendError as error:
        contestant.lack(NAME, error)
        return None
    return folder
