"""llama.cpp in its toolchain: logits of every step, positions, precision, and damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.api.models import stored
from cross_backend.artifact import Artifact, digest_path
from cross_backend.bench.bench import Subject
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.cache import Cache
from cross_backend.errors import LoadError, RunError
from cross_backend.lowering.lower import lower
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.worker.process import Worker
from tests.unit.backends.tiny_decoders import CONTEXT, Call, calls_of, logits_of, others, program_of, tiny

NAME = "llama_cpp"


def lowered(kind: str, target: str = NAME, **sizes: int) -> Artifact:
    return xb.lower(program_of(tiny(kind, **sizes)), target, name=kind)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[WorkerBench]:
    with WorkerBench(Worker(tmp_path / "log", resolve(NAME).python), 300) as found:
        yield found


def opened(bench: WorkerBench, artifact: Artifact) -> WorkerBench:
    bench.open(Subject(artifact.payload_path, artifact.target, 1))
    return bench


def called(bench: WorkerBench, call: Call, folder: Path) -> Any:
    """Give the logits of a call on the state that the one before left."""
    save_tensors(folder / "in.npz", {"input": [one.numpy() for one in call]})
    bench.bind(folder / "in.npz")
    bench.run(folder / "out.npz")
    (logits,) = load_tensors(folder / "out.npz")["output"]
    return logits


def close(got: Any, want: torch.Tensor, tolerance: float = 1e-5) -> bool:
    return float(np.abs(got - want[0].numpy()).max()) < tolerance * float(want.abs().max())


@pytest.mark.parametrize("kind", ["llama", "qwen"])
@pytest.mark.parametrize(("width", "prompts"), [(16, 1), (10, 1), (16, 0)])
def test_every_step_of_two_sequences_is_eagers(
    bench: WorkerBench, tmp_path: Path, kind: str, width: int, prompts: int
) -> None:
    workload = tiny(kind, width=width, prompts=prompts)
    opened(bench, lowered(kind, width=width, prompts=prompts))
    calls = calls_of(workload)
    for sequence in (calls, others(calls)):
        for call, want in zip(sequence, logits_of(workload, sequence), strict=True):
            assert close(called(bench, call, tmp_path), want)


def test_positions_come_in_order_or_again(bench: WorkerBench, tmp_path: Path) -> None:
    workload = tiny("qwen")
    calls = calls_of(workload)
    twice = [*calls[:4], *others(calls[2:6])]
    opened(bench, lowered("qwen"))
    for call, want in zip(twice, logits_of(workload, twice), strict=True):
        assert close(called(bench, call, tmp_path), want)
    with pytest.raises(RunError, match="do not fit"):
        called(bench, (torch.tensor([[1, 2]]), torch.tensor([CONTEXT - 1])), tmp_path)
    with pytest.raises(RunError, match="position 20 leaves tokens out: 10 were taken"):
        called(bench, (torch.tensor([[1]]), torch.tensor([20])), tmp_path)
    with pytest.raises(RunError, match="undefined"):
        called(bench, calls[0], tmp_path)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [*(("llama", one) for one in ("fp32", "fp16", "int8dyn", "int4w")), ("qwen", "fp32"), ("gpt2", "fp16")],
)
def test_is_verified_like_the_others(bench: WorkerBench, kind: str, precision: str) -> None:
    """On every step after the prompt, and in a second sequence after a reset."""
    cache, target = Cache(), f"{NAME}?precision={precision}"
    artifact = lower(stored(tiny(kind), "tiny", cache), resolve(target), cache).artifact
    comparison = opened(bench, artifact).verify(precision).comparison
    assert comparison.verdict, comparison.reason


@pytest.mark.parametrize("how", ["empty", "cut", "cut header", "garbage", "other"])
def test_a_damaged_file_is_one_line(bench: WorkerBench, tmp_path: Path, how: str) -> None:
    source = lowered("llama")
    artifact = source.copy_to(tmp_path, "copy", source.target, "s.npz")
    data = artifact.payload_path.read_bytes()
    changed = {
        "empty": b"",
        "cut": data[:-300],
        "cut header": data[:200],
        "garbage": b"garbage" * 99,
        "other": lowered("qwen", width=8).payload_path.read_bytes(),
    }
    artifact.payload_path.write_bytes(changed[how])
    artifact = replace(artifact, sha256=digest_path(artifact.payload_path), size_bytes=len(changed[how]))
    artifact.write_manifest()
    if how == "other":  # the same caches and vocabulary: what it computes is wrong
        assert not opened(bench, artifact).verify("fp32").comparison.verdict
        return
    with pytest.raises(LoadError, match=r"cannot load copy\.gguf") as caught:
        opened(bench, artifact)
    assert "\n" not in str(caught.value)
