"""The reference of a sequence: what it generates, and where a target that parts from it is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.open_artifact import OpenArtifact, open_session, sample_of
from cross_backend.cache import Cache
from cross_backend.generation.sequence import Generate, takes_whole
from cross_backend.generation.teaching import JudgeSequence, Teach
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import Captured
from cross_backend.program.captures import capture_workload
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.worker.question import Answering

MODEL = "llama?layers=1&hidden=32&heads=2&kv_heads=1&inner=48&vocabulary=60&context=32"
PROMPT, NEW = [5, 17, 4], 10


@pytest.fixture(scope="module", params=["", "&prompts=0"], ids=["whole prompts", "token by token"])
def captured(request: pytest.FixtureRequest) -> Captured:
    return capture_workload(MODEL + request.param, None, Cache())


@pytest.fixture(scope="module")
def opened(captured: Captured) -> OpenArtifact:
    resolved = resolve("torch.eager")
    artifact: Artifact = lower(captured, resolved, Cache()).artifact
    return OpenArtifact(lambda: open_session(artifact, resolved, resolved.options), sample_of(artifact))


@pytest.fixture
def calls(captured: Captured, tmp_path: Path) -> tuple[Path, list[int]]:
    path = tmp_path / "calls.npz"
    return path, Teach(captured.folder, PROMPT, NEW, path).answer(Answering(0))


def test_a_target_that_computes_the_same_is_right_on_every_call(
    opened: OpenArtifact, calls: tuple[Path, list[int]]
) -> None:
    path, tokens = calls
    expected = NEW + (0 if takes_whole(opened.session.inputs) else len(PROMPT) - 1)
    for _ in range(2):  # it begins and ends with the initial state
        found = JudgeSequence(path, "fp32").read(opened)
        assert (found.calls, found.reason) == (expected, None)
    assert Generate(PROMPT, NEW).read(opened).tokens == tokens and len(tokens) == NEW


def test_the_first_token_that_parts_is_named(opened: OpenArtifact, calls: tuple[Path, list[int]]) -> None:
    path, _ = calls
    groups = dict(load_tensors(path))
    names = {group: bytes(groups[f"{group}.name"][0]).decode() for group in groups if "." not in group}
    (wrong,) = [group for group, name in names.items() if name == f"token 4 of {NEW}"]
    logits = groups[f"{wrong}.expected"][0].copy()
    logits[0, 7] += 0.5
    groups[f"{wrong}.expected"] = (logits,)
    save_tensors(path, groups)
    found = JudgeSequence(path, "fp32").read(opened)
    assert found.reason is not None and f"'token 4 of {NEW}'" in found.reason and "[0, 7]" in found.reason
    assert found.calls == int(wrong.removeprefix("step")) - 1


def test_a_state_that_is_lost_is_found(opened: OpenArtifact, calls: tuple[Path, list[int]]) -> None:
    path, _ = calls
    groups = {group: list(tensors) for group, tensors in load_tensors(path).items()}
    for group, tensors in groups.items():
        if group.startswith("step") and "." not in group:
            tensors[1] = np.zeros_like(tensors[1])  # every call at the first position: what came before counts no more
    save_tensors(path, groups)
    found = JudgeSequence(path, "fp32").read(opened)
    assert found.reason is not None and "of its scale" in found.reason
