"""ncnn: what its graph holds, how precision and inputs are handed over, what it refuses, and damaged payloads."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import cross_backend as xb
from cross_backend.artifact import Artifact, digest_path
from cross_backend.backends.ncnn._files import NO_BATCH, PARAM, PORTS, WEIGHTS, Port, Ports, layers_of
from cross_backend.errors import CrossBackendError, LoadError, LowerError, RunError, UnavailableError, UnsupportedError
from cross_backend.registry import find_backend, resolve
from tests import needs

GRAPH = """7767517
6 7
Input                    in0                      0 1 in0
Split                    splitncnn_0              1 2 in0 1 2
MemoryData               weight                   0 1 3 0=4
Convolution              conv_0                   1 1 1 4 0=16 1=3
Convolution              conv_1                   1 1 4 5 0=16 1=3
SDPA                     sdpa_0                   4 1 5 5 2 3 out0 5=1
"""


class _Net(nn.Module):
    """A picture and indices in, floats out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.tokens, self.last = nn.Conv2d(3, 8, 3), nn.Embedding(50, 8), nn.Linear(8, 64)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = functional.hardswish(self.conv(x)).mean((2, 3))
        return self.last(y + self.tokens(ids).mean(1)), y


@pytest.fixture(scope="module")
def net() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _Net().eval(), (torch.randn(2, 3, 8, 8), torch.randint(0, 50, (2, 4)))


@pytest.fixture(scope="module")
def program(net: tuple[nn.Module, tuple[torch.Tensor, ...]]) -> torch.export.ExportedProgram:
    return xb.capture(*net)


@pytest.fixture(scope="module")
def lowered(program: torch.export.ExportedProgram) -> Callable[[str], Artifact]:
    return lambda target: xb.lower(program, target, name="net")


def _module(function: Callable[..., Any]) -> nn.Module:
    class _Module(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return function(*inputs)

    return _Module().eval()


def _copy(artifact: Artifact, folder: Path) -> Artifact:
    return artifact.copy_to(folder, "copy", artifact.target, "s.npz")


def _open(artifact: Artifact) -> Any:
    """Open a payload that was changed, as if its digest had been changed with it."""
    changed = replace(artifact, sha256=digest_path(artifact.payload_path))
    resolved = resolve(artifact.target)
    return resolved.backend.load(changed, resolved.options)


def test_counts_what_a_graph_computes(tmp_path: Path) -> None:
    (tmp_path / PARAM).write_text(GRAPH)
    assert layers_of(tmp_path / PARAM) == {"Convolution": 2, "SDPA": 1}
    (tmp_path / PARAM).write_text("not " + GRAPH)
    with pytest.raises(ValueError, match="7767517"):
        layers_of(tmp_path / PARAM)


def test_its_certificate_is_read_from_the_graph(lowered: Callable[[str], Artifact]) -> None:
    artifact = lowered("ncnn")
    counts = {row.name: row.count for row in artifact.placement.inside}
    assert counts["Convolution"] == counts["HardSwish"] == counts["Embed"] == 1
    assert "Split" not in counts and "Input" not in counts
    assert artifact.placement.constant_bytes == (artifact.payload_path / WEIGHTS).stat().st_size
    assert sorted(path.name for path in artifact.payload_path.iterdir()) == [WEIGHTS, PARAM, PORTS]


def test_float32_stores_and_computes_in_float32(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]], lowered: Callable[[str], Artifact]
) -> None:
    module, inputs = net
    errors, sizes = {}, {}
    for precision in ("fp32", "fp16"):
        artifact = lowered(f"ncnn?precision={precision}")
        with xb.load(artifact, threads=1) as session:
            got, want = session(*inputs)[0], module(*inputs)[0].detach()
        errors[precision] = float((got - want).abs().max() / want.abs().max())
        sizes[precision] = (artifact.payload_path / WEIGHTS).stat().st_size
    assert errors["fp32"] < 1e-6 < 1e-5 < errors["fp16"] < 1e-2
    assert sizes["fp16"] < 0.6 * sizes["fp32"]


def test_says_what_it_computes_in(program: torch.export.ExportedProgram, lowered: Callable[[str], Artifact]) -> None:
    backend, inputs = find_backend("ncnn"), program.example_inputs[0]
    for target, arithmetic in (("ncnn", "fp32"), ("ncnn?precision=fp16", "fp32 with fp16 weights")):
        where = backend.execution(lowered(target), resolve(target).options, inputs)
        assert where is not None and where.nodes == 1 and where.functional_only is None
        assert where.precision == arithmetic or (where.precision, target) == ("fp16", "ncnn?precision=fp16")  # on Arm


def test_a_software_driver_is_a_functional_check(
    program: torch.export.ExportedProgram,
    net: tuple[nn.Module, tuple[torch.Tensor, ...]],
    lowered: Callable[[str], Artifact],
) -> None:
    needs.vulkan()
    module, inputs = net
    artifact = lowered("ncnn?device=vulkan")
    assert artifact.sha256 == lowered("ncnn").sha256, "the device shapes the session, not the payload"
    with xb.load(artifact, device="vulkan") as session:
        torch.testing.assert_close(session(*inputs)[0], module(*inputs)[0].detach(), atol=1e-5, rtol=1e-4)
    where = find_backend("ncnn").execution(artifact, resolve("ncnn?device=vulkan").options, program.example_inputs[0])
    assert where is not None and where.device.startswith("Vulkan (")
    assert where.nodes is not None and 0 < where.nodes <= 1
    assert sum(count for _, count in where.elsewhere) == round((1 - where.nodes) * artifact.placement.inside_count) or (
        all(what.endswith(" @ CPU") for what, _ in where.elsewhere)
    )
    if "llvmpipe" in where.device:
        assert where.functional_only is not None and "software driver" in where.functional_only


def test_without_a_vulkan_device_it_does_not_run_on_the_processor(
    lowered: Callable[[str], Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cross_backend.backends._vulkan import Found
    from cross_backend.backends.ncnn import _session

    monkeypatch.setattr(_session, "find_devices", lambda: Found(why_none="no Vulkan driver is installed"))
    with (
        pytest.raises(UnavailableError, match=r"no Vulkan driver is installed.*mesa-vulkan"),
        xb.load(lowered("ncnn"), device="vulkan"),
    ):
        pass


def test_keeps_a_copy_of_its_inputs(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]], lowered: Callable[[str], Artifact]
) -> None:
    """A matrix of ncnn's looks into an array's memory without keeping it."""
    module, (x, ids) = net
    with xb.load(lowered("ncnn")) as session:
        run = session.bind([x.numpy().copy(), ids.numpy().copy()])
        gc.collect()
        junk = [np.full(x.shape, 1e30, np.float32) for _ in range(50)]
        got = np.asarray(run()[0])
        assert len(junk) == 50
    np.testing.assert_allclose(got, module(x, ids)[0].detach(), atol=1e-5)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_refuses_indices_that_32_bits_do_not_hold(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]], lowered: Callable[[str], Artifact], value: int
) -> None:
    _, (x, ids) = net
    wrong = ids.clone()
    wrong[0, 0] = value
    with xb.load(lowered("ncnn")) as session, pytest.raises(RunError, match=f"'ids' holds {value}.*32 bits"):
        session(x, wrong)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (lambda x: x.topk(2)[0] * 1, (torch.randn(2, 5),), r"ncnn has no layer for torch\.topk"),
        (lambda x: x.argmax(1), (torch.randn(2, 5),), r"output 'argmax' is int64\[2\]"),
        (
            lambda x: x.permute(0, 2, 1, 3, 4) + 1,
            (torch.randn(2, 3, 4, 5, 6),),
            "permute 5-rank tensor is not",
        ),
        (lambda x, s: x * s, (torch.randn(2, 3), torch.tensor(2.0)), "no dimensions"),
        (lambda x: x * 2, (torch.randn(0, 3),), "is empty"),
        (lambda x: x * 2, (torch.randn(1, 2, 1, 2, 1, 2),), "more than 4 dimensions and a batch"),
        (lambda x: x * 2, (torch.randn(2, 2).double(),), r"is float64\[2, 2\]; possible: float32"),
    ],
    ids=["operator", "whole numbers", "rank of an operator", "scalar", "empty", "rank", "type"],
)
def test_refuses_with_the_reason(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as caught:
        xb.lower(xb.capture(_module(function), inputs), "ncnn", name="refused")
    assert "\n" not in str(caught.value)


TRUE = torch.ones(5, 5).tril().bool()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3),
        lambda x: functional.scaled_dot_product_attention(x, x, x, attn_mask=TRUE),
        lambda x: functional.scaled_dot_product_attention(x, x, x, TRUE.float().log()),
        lambda x: functional.scaled_dot_product_attention(x, x, x),
    ],
    ids=["causal", "causal and scaled", "truths", "floats", "none"],
)
def test_attention_keeps_its_mask(function: Callable[..., Any]) -> None:
    """pnnx has no causal attention, and hands truths to ncnn as if they were floats."""
    module, x = _module(function), torch.randn(1, 2, 5, 8)
    with xb.load(xb.lower(xb.capture(module, (x,)), "ncnn", name="attention")) as session:
        torch.testing.assert_close(session(x), module(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bool", "float16", "bfloat16", "float64"])
def test_an_input_that_becomes_float32_before_all_else_is_handed_over_so(dtype: str) -> None:
    """ncnn has no casts: a picture of bytes would have to be prepared outside of the model."""
    x = (torch.arange(24).reshape(1, 2, 3, 4) % 5).to(getattr(torch, dtype))
    program = xb.capture(_module(lambda x: x.permute(0, 3, 1, 2).float() / 4 - 0.5), (x,))
    with xb.load(xb.lower(program, "ncnn", name="bytes")) as session:
        torch.testing.assert_close(session(x), x.permute(0, 3, 1, 2).float() / 4 - 0.5)


@pytest.mark.parametrize(
    "function",
    [lambda x: x.float() + x, lambda x: (x + 1).float(), lambda x: (x.float(), x.permute(1, 0) * 2)],
    ids=["also as it is", "computed before", "moved and as it is"],
)
def test_an_input_that_is_computed_with_as_it_is_stays_so(function: Callable[..., Any]) -> None:
    x = torch.arange(6).reshape(2, 3).half()
    with pytest.raises(UnsupportedError, match=r"input 'x' is float16\[2, 3\]|input 'inputs_0' is float16\[2, 3\]"):
        xb.lower(xb.capture(_module(function), (x,)), "ncnn", name="half")


def test_a_program_that_pnnx_fails_at_is_one_line(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no model")
    with pytest.raises(CrossBackendError) as caught:
        find_backend("ncnn").lower(xb.OnnxProgram(damaged), resolve("ncnn").options, tmp_path / "out", [])
    assert "\n" not in str(caught.value)
    half = nn.Linear(4, 4).half().eval()
    with pytest.raises((LowerError, UnsupportedError)) as caught:
        xb.lower(xb.capture(half, (torch.randn(2, 4).half(),)), "ncnn", name="half")
    assert "float16" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (PARAM, b""),
        (PARAM, b"7767517\n2 1\nInput in0 0 1 in0\nNothing a 1 1 in0 out0\n"),
        (PARAM, b"7767517\n99999999 99999999\n"),
        (PARAM, b"\xff\xfe\x00garbage"),
        (WEIGHTS, b"\x00" * 40),
        (PORTS, b"{}"),
        (PORTS, b'{"inputs": [], "outputs": []}'),
        (PORTS, b'{"inputs": [{"blob": "in0", "batch": -1}], "outputs": []}'),
        (PORTS, b"\xff"),
    ],
)
def test_a_damaged_file_is_one_line(lowered: Callable[[str], Artifact], tmp_path: Path, name: str, data: bytes) -> None:
    artifact = _copy(lowered("ncnn"), tmp_path)
    (artifact.payload_path / name).write_bytes(data)
    with pytest.raises(LoadError) as caught, _open(artifact):
        pass
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(lowered: Callable[[str], Artifact], tmp_path: Path) -> None:
    for name in (PARAM, WEIGHTS, PORTS):
        artifact = _copy(lowered("ncnn"), tmp_path / name)
        (artifact.payload_path / name).unlink()
        with pytest.raises(CrossBackendError) as caught, _open(artifact):
            pass
        assert "\n" not in str(caught.value)


def test_ports_come_back_as_they_were_written(tmp_path: Path) -> None:
    ports = Ports((Port("in0", 0), Port("in1", NO_BATCH)), (Port("out0", 1),))
    ports.write(tmp_path)
    assert Ports.read(tmp_path) == ports
