"""Sequences of encoder-decoders: the encoder's outputs reach every call, and a memory that is wrong is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cross_backend.bench.open_artifact import OpenArtifact, open_session, sample_of
from cross_backend.cache import Cache
from cross_backend.errors import UsageError
from cross_backend.generation.continuing import prompts_of
from cross_backend.generation.encoding import GROUP, Encode, read_memory, write_reference
from cross_backend.generation.sequence import Generate, check_generates
from cross_backend.generation.teaching import JudgeSequence, Teach
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import Captured
from cross_backend.program.captures import capture_workload
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.worker.question import Answering
from cross_backend.workloads import encoder_of

SIZES = "layers=2&hidden=32&heads=4&width=8&inner=48&vocabulary=60&context=24&source=9"
PROMPT, NEW = [0], 12


@pytest.fixture(
    scope="module",
    params=[pytest.param("", marks=pytest.mark.slow), "&prompts=0"],
    ids=["whole prompts", "token by token"],
)
def decoder(request: pytest.FixtureRequest) -> Captured:
    return capture_workload(f"t5_decoder?{SIZES}{request.param}", None, Cache())


@pytest.fixture(scope="module")
def encoder() -> Captured:
    text = encoder_of(f"t5_decoder?{SIZES}")
    assert text is not None
    return capture_workload(text, None, Cache())


@pytest.fixture(scope="module")
def opened() -> Callable[[Captured], OpenArtifact]:
    resolved = resolve("torch.eager")

    def open_one(captured: Captured) -> OpenArtifact:
        artifact = lower(captured, resolved, Cache()).artifact
        return OpenArtifact(lambda: open_session(artifact, resolved, resolved.options), sample_of(artifact))

    return open_one


def test_a_target_encodes_and_generates_what_the_reference_does(
    encoder: Captured, decoder: Captured, opened: Callable[[Captured], OpenArtifact], tmp_path: Path
) -> None:
    memory, own, calls = (tmp_path / f"{name}.npz" for name in ("memory", "own", "calls"))
    write_reference(encoder, memory)
    assert Encode(own).read(opened(encoder)).ns > 0
    for mine, theirs in zip(read_memory(own), read_memory(memory), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    tokens = Teach(decoder.folder, PROMPT, NEW, calls, memory).answer(Answering(0))
    assert [len(load_tensors(calls)[f"step{call}"]) for call in (1, NEW)] == [2, 2], "the memory is stored once"
    one = opened(decoder)
    found = JudgeSequence(calls, "fp32", memory).read(one)
    assert (found.calls, found.reason) == (NEW, None)
    assert Generate(PROMPT, NEW, own).read(one).tokens == tokens


def test_another_memory_is_found(
    encoder: Captured, decoder: Captured, opened: Callable[[Captured], OpenArtifact], tmp_path: Path
) -> None:
    memory, calls = tmp_path / "memory.npz", tmp_path / "calls.npz"
    write_reference(encoder, memory)
    Teach(decoder.folder, PROMPT, NEW, calls, memory).answer(Answering(0))
    keys, values = read_memory(memory)
    save_tensors(memory, {GROUP: [np.flip(keys, 2).copy(), values]})
    found = JudgeSequence(calls, "fp32", memory).read(opened(decoder))
    assert found.calls == 0 and found.reason is not None and "'the prompt'" in found.reason


def test_a_decoder_alone_is_refused(encoder: Captured, decoder: Captured) -> None:
    """It is what ``run --prompt`` says of its bundle, too."""
    facts = decoder.workload, decoder.inputs, decoder.outputs, decoder.state
    assert check_generates(*facts, encoder.outputs) == 60
    with pytest.raises(UsageError, match=r"cannot generate alone: .*keys.*compare --generate"):
        check_generates(*facts)
    with pytest.raises(UsageError, match="cannot generate alone"):
        prompts_of(lower(decoder, resolve("torch.eager"), Cache()).artifact, None)
    with pytest.raises(UsageError, match="does not take what its encoder returns"):
        check_generates(*facts, encoder.outputs[:1])
