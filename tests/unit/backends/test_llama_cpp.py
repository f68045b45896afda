"""llama.cpp's files: what is written of a decoder, in which types, and what is refused; no runtime is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.backend import Lowered
from cross_backend.backends import _packages
from cross_backend.backends._gguf import read_gguf
from cross_backend.errors import LowerError, UnavailableError, UnsupportedError
from cross_backend.machine import Machine
from cross_backend.registry import find_backend, resolve
from tests.unit.backends.tiny_decoders import CONTEXT, KINDS, VOCABULARY, program_of, tiny

NAME = "llama_cpp"
FAMILIES = {"gpt2": "gpt2", "llama": "llama", "qwen": "qwen2"}


Lower = Callable[..., Lowered]


@pytest.fixture
def lowered(tmp_path: Path) -> Lower:
    """Give a function that lowers a decoder, or another program."""

    def lower(kind: str | torch.export.ExportedProgram, target: str = NAME, **sizes: int) -> Lowered:
        program = program_of(tiny(kind, **sizes)) if isinstance(kind, str) else kind
        resolved = resolve(target)
        return resolved.backend.lower(program, resolved.options, tmp_path / "decoder", [])

    return lower


def tensors_in(made: Lowered) -> dict[str, Any]:
    """Give the tensors of a file by their names, in float32."""
    read = gguf.GGUFReader(made.payload).tensors
    return {one.name: gguf.quants.dequantize(one.data, one.tensor_type) for one in read}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_says_what_the_decoder_is(lowered: Lower, kind: str) -> None:
    artifact, net = lowered(kind, f"{NAME}?precision=fp16" if kind == "gpt2" else NAME), tiny(kind).model
    assert isinstance(net, nn.Module)
    fields = {key: field.contents() for key, field in gguf.GGUFReader(artifact.payload).fields.items()}
    family = FAMILIES[kind]
    wanted = {"context_length": CONTEXT, "vocab_size": VOCABULARY, "embedding_length": 64, "block_count": 2}
    wanted |= {
        "feed_forward_length": 48,
        "attention.head_count": 4,
        "attention.head_count_kv": 2 + 2 * (kind != "qwen"),
    }
    if kind != "gpt2":
        wanted |= {"rope.dimension_count": 16, "rope.freq_base": 10_000}
    assert fields["general.architecture"] == family
    assert {key: fields[f"{family}.{key}"] for key in wanted} == wanted
    found, state = tensors_in(artifact), net.state_dict()
    same = {
        "token_embd": "tokens",
        "output_norm": "norm",
        "blk.1.ffn_down": "layers.1.down",
        "blk.0.attn_output": "layers.0.out",
    }
    for name, own in same.items():
        np.testing.assert_allclose(found[f"{name}.weight"], state[f"{own}.weight"].numpy(), rtol=1e-3, atol=1e-4)


def test_gpt2_has_no_float32(lowered: Lower) -> None:
    with pytest.raises(UnsupportedError, match=r"GELU from a table of float16 .* Use llama_cpp\?precision=fp16"):
        lowered("gpt2")


def _turned(x: torch.Tensor, angles: torch.Tensor, *, pairs: bool) -> torch.Tensor:
    """Turn heads ``(heads, width)``: halves of each, or neighbours."""
    first, second = (x[..., ::2], x[..., 1::2]) if pairs else x.chunk(2, -1)
    parts = [first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()]
    return torch.stack(parts, -1).flatten(-2) if pairs else torch.cat(parts, -1)


def test_rows_of_llamas_heads_lie_as_its_rotation_turns_them(lowered: Lower) -> None:
    """Products of turned queries and keys are what counts."""
    net: Any = tiny("llama").model
    found = tensors_in(lowered("llama"))
    query, key, value = net.layers[0].mixed.weight.detach().chunk(3)
    np.testing.assert_array_equal(found["blk.0.attn_v.weight"], value.numpy())
    x, angles = torch.randn(64, generator=torch.Generator().manual_seed(0)), torch.linspace(0, 3, 8)
    want = (_turned((query @ x).view(4, 16), angles, pairs=False) * (key @ x).view(4, 16)).sum(-1)
    mine = [torch.from_numpy(found[f"blk.0.attn_{part}.weight"].copy()) @ x for part in ("q", "k")]
    got = (_turned(mine[0].view(4, 16), angles, pairs=True) * mine[1].view(4, 16)).sum(-1)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("precision", "products", "embeddings"),
    [("fp16", "F16", "F16"), ("int8dyn", "Q8_0", "Q8_0"), ("int4w", "Q4_0", "Q8_0")],
)
def test_low_precision_is_that_of_products(lowered: Lower, precision: str, products: str, embeddings: str) -> None:
    artifact = lowered("gpt2", f"{NAME}?precision={precision}")
    kinds = {one.name: one.tensor_type.name for one in gguf.GGUFReader(artifact.payload).tensors}
    assert kinds["token_embd.weight"] == embeddings and kinds["blk.0.attn_qkv.weight"] == products
    assert {kinds[name] for name in kinds if "norm" in name or "bias" in name or "position" in name} == {"F32"}
    assert (kinds["blk.0.ffn_down.weight"] == "F32") == (precision != "fp16"), "its rows of 48 are no whole groups"
    arithmetic = artifact.placement.arithmetic
    assert arithmetic is not None and {row.name: row.count for row in arithmetic.low}["attn_qkv"] == 2
    assert {row.name: row.count for row in arithmetic.kept} == ({} if precision == "fp16" else {"ffn_down": 2})


def test_a_precision_that_changes_nothing_is_refused(lowered: Lower) -> None:
    with pytest.raises(UnsupportedError, match="int4w changes nothing"):
        lowered("llama", f"{NAME}?precision=int4w", width=10)


def test_its_certificate_names_the_weights(lowered: Lower) -> None:
    placement = lowered("qwen").placement
    counts = {row.name: row.count for row in placement.inside}
    assert counts["attn_q"] == counts["ffn_gate"] == 2 and counts["token_embd"] == 1
    assert placement.arithmetic is None and placement.coverage == 1


def _with_angles(change: Callable[[Any], Any]) -> Any:
    net: Any = tiny("llama").model
    change(net)
    return net


@pytest.mark.slow
def test_another_base_of_its_angles_is_read_and_other_angles_are_refused(lowered: Lower) -> None:
    def scaled(net: Any, base: float, stretch: float) -> None:
        angles = torch.outer(torch.arange(CONTEXT) / stretch, base ** -(torch.arange(0, 16, 2) / 16))
        net.cosines.copy_(angles.cos())
        net.sines.copy_(angles.sin())

    workload = tiny("llama")
    net = _with_angles(lambda one: scaled(one, 500_000.0, 1))
    artifact = lowered(xb.capture(net, workload.inputs, workload.dynamic_shapes))
    field = gguf.GGUFReader(artifact.payload).fields["llama.rope.freq_base"]
    assert field.contents() == 500_000
    stretched = _with_angles(lambda one: scaled(one, 10_000.0, 4))
    with pytest.raises(UnsupportedError, match="powers of one base"):
        lowered(xb.capture(stretched, workload.inputs, workload.dynamic_shapes))


def test_refuses_what_is_no_decoder(lowered: Lower) -> None:
    with pytest.raises(UnsupportedError, match=r"llama\.cpp takes decoders .* only") as caught:
        lowered(xb.capture(nn.Linear(4, 2).eval(), (torch.ones(1, 4),)))
    assert "\n" not in str(caught.value)


def test_a_damaged_file_is_not_certified(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"garbage" * 99)
    with pytest.raises(LowerError, match=r"x\.gguf is damaged") as caught:
        read_gguf(tmp_path / "x.gguf")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_says_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROSS_BACKEND_TOOLCHAINS", str(tmp_path))
    artifact = xb.lower(program_of(tiny("llama")), NAME, name="llama")
    monkeypatch.setattr(_packages, "version_of", lambda name: None if name == "gguf" else "1")
    missing = find_backend(NAME).missing(Machine.here())
    assert missing is not None and missing.lower is not None and missing.run is not None
    assert missing.lower.remedy == "pip install 'cross-backend[llama_cpp]'"
    assert missing.run.remedy == "cross-backend toolchain add llama_cpp"
    assert resolve(NAME).backend.run_toolchain == "llama_cpp"
    with pytest.raises(UnavailableError, match="toolchain add llama_cpp"):
        xb.load(artifact)
