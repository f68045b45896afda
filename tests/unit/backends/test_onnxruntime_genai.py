"""onnxruntime-genai: logits of every step, positions, what it refuses, precision, and damaged payloads."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.artifact import Artifact, digest_path
from cross_backend.backends import _packages
from cross_backend.backends.onnxruntime._genai_graph import CONFIG, MODEL
from cross_backend.errors import ArtifactError, LoadError, RunError, UnsupportedError
from cross_backend.machine import Machine
from cross_backend.registry import find_backend, resolve
from tests.unit.backends.tiny_decoders import CONTEXT, KINDS, VOCABULARY, calls_of, logits_of, others, program_of, tiny

NAME = "onnxruntime.genai"
Lowered = Callable[..., Artifact]


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    @cache
    def lower(kind: str, target: str = NAME, **sizes: int) -> Artifact:
        return xb.lower(program_of(tiny(kind, **sizes)), target, name=kind)

    return lower


def close(got: Any, want: Any) -> bool:
    return float((got - want).abs().max()) < 1e-5 * float(want.abs().max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("width", "prompts"), [(16, 1), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((8, 1), (16, 0)))]
)
def test_every_step_of_two_sequences_is_eagers(lowered: Lowered, kind: str, width: int, prompts: int) -> None:
    workload = tiny(kind, width=width, prompts=prompts)
    calls = calls_of(workload)
    with xb.load(lowered(kind, width=width, prompts=prompts)) as session:
        for sequence in (calls, others(calls), calls):
            session.reset()
            for call, want in zip(sequence, logits_of(workload, sequence), strict=True):
                assert close(session(*call), want)


def test_two_sessions_have_their_own_text(lowered: Lowered) -> None:
    workload = tiny("llama")
    first = calls_of(workload)
    second = others(first)
    with xb.load(lowered("llama"), threads=1) as one, xb.load(lowered("llama"), threads=2) as other:
        wanted = zip(first, second, logits_of(workload, first), logits_of(workload, second), strict=True)
        for mine, theirs, want, expected in wanted:
            assert close(one(*mine), want) and close(other(*theirs), expected)


def test_a_position_that_was_taken_is_taken_again(lowered: Lowered) -> None:
    """As the program itself does, which writes over what its caches hold from there on."""
    workload = tiny("qwen")
    calls = calls_of(workload)
    twice = [*calls[:4], *others(calls[2:6])]
    with xb.load(lowered("qwen")) as session:
        for call, want in zip(twice, logits_of(workload, twice), strict=True):
            assert close(session(*call), want)


def test_tokens_cannot_be_left_out(lowered: Lowered) -> None:
    calls = calls_of(tiny("llama"))
    with xb.load(lowered("llama")) as session:
        session(*calls[0])
        with pytest.raises(RunError, match="position 7 leaves tokens out: 5 were taken") as caught:
            session(*calls[3])
        assert "\n" not in str(caught.value)
        with pytest.raises(RunError, match="undefined"):
            session(*calls[1])
        session.reset()
        session(*calls[0])


@pytest.mark.parametrize(
    ("ids", "place", "reason"),
    [
        ([1, 2], CONTEXT - 1, "2 tokens at position 23 do not fit: the model has positions 0 to 23"),
        ([1], -1, "position -1"),
        ([VOCABULARY], 0, f"not among the {VOCABULARY}"),
        ([-1], 0, f"not among the {VOCABULARY}"),
        ([2**40], 0, "32 bits"),
    ],
)
def test_refuses_what_the_model_does_not_have(lowered: Lowered, ids: list[int], place: int, reason: str) -> None:
    with xb.load(lowered("llama")) as session, pytest.raises(RunError, match=reason):
        session(torch.tensor([ids]), torch.tensor([place]))


def test_its_state_stays_inside(lowered: Lowered) -> None:
    with xb.load(lowered("llama")) as session:
        assert session.state.moved_bytes == 0 and session.state.size_bytes == 2 * 2 * 4 * CONTEXT * 16 * 4
        for refused in (session.state.read, session.state.fork):
            with pytest.raises(UnsupportedError, match="does not expose"):
                refused()


class _Scaled(nn.Module):
    """Weights of a norm, and another computation."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def _changed(change: Callable[[Any], Any]) -> Any:
    net = copy.deepcopy(tiny("llama").model)
    change(net)
    return net


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (_changed(lambda net: setattr(net, "norm", _Scaled(net.norm.weight))), "computes something else"),
        (_changed(lambda net: net.register_buffer("more", torch.ones(3))), "another tensor 'more'"),
        (_changed(lambda net: net.layers[1].keys.fill_(1)), "begins with full caches"),
        (_changed(lambda net: net.all_places.add_(1)), "does not count from 0 in 'all_places'"),
        (_changed(lambda net: net.double()), "another tensor"),
    ],
    ids=["operators", "tensors", "caches", "positions", "type"],
)
def test_refuses_a_decoder_of_another_kind(tmp_path: Path, module: nn.Module, reason: str) -> None:
    workload, resolved = tiny("llama"), resolve(NAME)
    program = xb.capture(module, workload.inputs, workload.dynamic_shapes)
    with pytest.raises(UnsupportedError, match=reason) as caught:
        resolved.backend.lower(program, resolved.options, tmp_path / "other", [])
    assert "decoders of the shapes of the models llama, qwen and gpt2_decoder only" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_what_is_no_decoder() -> None:
    with pytest.raises(UnsupportedError, match=r"takes decoders .* only, and this program is none") as caught:
        xb.lower(xb.capture(nn.Linear(4, 2).eval(), (torch.ones(1, 4),)), NAME, name="mlp")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_refuses_heads_that_its_attention_does_not_take() -> None:
    with pytest.raises(UnsupportedError, match="a multiple of 8 numbers, and this decoder's have 4"):
        xb.lower(program_of(tiny("gpt2", width=4)), NAME, name="narrow")


@pytest.mark.parametrize("precision", ["int8dyn", "int4w"])
def test_low_precision_is_certified_and_near(lowered: Lowered, precision: str) -> None:
    workload, artifact = tiny("llama"), lowered("llama", f"{NAME}?precision={precision}")
    assert artifact.placement.arithmetic is not None
    products = sum(row.count for row in artifact.placement.arithmetic.low)
    assert products == 2 * 5 + 1  # a layer's five, and the last one
    calls = calls_of(workload)
    with xb.load(artifact) as session:
        for call, want in zip(calls, logits_of(workload, calls), strict=True):
            got = session(*call)
            assert float(nn.functional.cosine_similarity(got, want)) > 0.9 and not close(got, want)


def test_its_certificate_names_the_attention(lowered: Lowered) -> None:
    counts = {row.name: row.count for row in lowered("gpt2").placement.inside}
    assert counts["GroupQueryAttention"] == 2 and counts["LayerNormalization"] == 5


def _copied(artifact: Artifact, folder: Path, change: Callable[[Path], Any]) -> Artifact:
    copied = artifact.copy_to(folder, "copy", artifact.target, "s.npz")
    change(copied.payload_path)
    return replace(copied, sha256=digest_path(copied.payload_path))


def _cut(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-300])


def _with_library(folder: Path) -> None:
    row = json.loads((folder / CONFIG).read_text())
    row["model"]["decoder"]["session_options"]["custom_ops_library"] = "evil.so"
    (folder / CONFIG).write_text(json.dumps(row, indent=2))


def _longer(folder: Path) -> None:
    text = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(text.replace(f": {CONTEXT}", f": {CONTEXT * 1000}"))


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        (_cut(MODEL), ArtifactError, "damaged"),
        (_cut(CONFIG), LoadError, "damaged"),
        (lambda folder: (folder / MODEL).write_bytes(b"garbage" * 99), ArtifactError, "damaged"),
        (lambda folder: (folder / CONFIG).unlink(), ArtifactError, CONFIG),
        (_with_library, LoadError, "was not written by cross-backend"),
        (_longer, LoadError, "that its manifest describes"),
    ],
    ids=["cut model", "cut description", "garbage", "no description", "a library", "other sizes"],
)
def test_a_damaged_payload_is_one_line(
    lowered: Lowered, tmp_path: Path, change: Callable[[Path], Any], kind: type[Exception], reason: str
) -> None:
    artifact = _copied(lowered("llama"), tmp_path, change)
    resolved = resolve(artifact.target)
    with pytest.raises(kind, match=reason) as caught, resolved.backend.load(artifact, resolved.options):
        pass
    assert "\n" not in str(caught.value)


def test_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_packages, "version_of", lambda name: None if name == "onnxruntime-genai" else "1")
    missing = find_backend(NAME).missing(Machine.here())
    assert missing is not None and missing.run is not None and missing.lower is not None
    assert "onnxruntime-genai" in missing.run.reason and missing.run.remedy == "pip install 'cross-backend[genai]'"
