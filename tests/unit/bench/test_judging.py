"""Judging: an open artifact is held to kept probes, and has its sample bound afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from cross_backend.bench import verification
from cross_backend.bench.judging import JudgeOn
from cross_backend.bench.open_artifact import OpenArtifact, open_session, resolve_with_threads
from cross_backend.cache import Cache
from cross_backend.lowering.lower import lower
from cross_backend.program.capture import capture
from cross_backend.program.kept_probes import keep_probes
from cross_backend.program.writing import write_program
from cross_backend.tensors import load_tensors, to_numpy
from cross_backend.verify.further import PROBE, KnownInput, further_groups

if TYPE_CHECKING:
    import pytest


def test_a_kept_probe_is_judged(tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    program = capture(torch.nn.Softsign(), (torch.linspace(-2, 2, 8),))
    captured = write_program(program, "net", tmp_path / "capture")
    cache = Cache(tmp_path / "cache")
    resolved, options = resolve_with_threads("torch", 1)
    artifact = lower(captured, resolved, cache).artifact
    one = OpenArtifact(lambda: open_session(artifact, resolved, options), load_tensors(captured.sample_path))
    before = [to_numpy(y).copy() for y in one.run()]
    x = np.full(8, 3.0, np.float32)
    right = keep_probes(cache, "a" * 64, [KnownInput("adversarial 1", [x], [x / (1 + abs(x))])])
    assert JudgeOn(right, "fp32").read(one) == ""
    wrong = keep_probes(cache, "b" * 64, [KnownInput("adversarial 2", [x], [x])])
    assert "output 0 on 'adversarial 2' deviates" in JudgeOn(wrong, "fp32").read(one)
    assert all(map(np.array_equal, before, map(to_numpy, one.run())))
    one.close()


def test_a_probe_that_alone_reaches_a_condition_runs_however_slow_the_machine_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = capture(torch.nn.Softsign(), (torch.linspace(-2, 2, 8),))
    captured = write_program(program, "net", tmp_path)
    resolved, options = resolve_with_threads("torch", 1)
    artifact = lower(captured, resolved, Cache(tmp_path / "cache")).artifact
    x = np.full(8, 3.0, np.float32)
    same, wrong = (KnownInput(name, [x], [x * factor]) for name, factor in (("same", 0.25), ("wrong", 1.0)))
    monkeypatch.setattr(verification, "LEAST_S", 0.0)
    monkeypatch.setattr(verification, "SHARE", 0.0)
    for is_reached in (False, True):
        probes = further_groups(PROBE, [same, same, replace(wrong, reaches=is_reached)])
        sample = {**{k: v for k, v in load_tensors(captured.sample_path).items() if PROBE not in k}, **probes}
        one = OpenArtifact(lambda: open_session(artifact, resolved, options), sample)
        found = verification.verified(one, "fp32").comparison
        one.close()
        assert found.verdict is not is_reached and (found.probes == 1) is not is_reached
