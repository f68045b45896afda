"""MNN: what its file holds, how it is handed inputs, precision, what it refuses, and damaged files."""

from __future__ import annotations

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
from cross_backend.backends.mnn import _session
from cross_backend.errors import CrossBackendError, LoadError, LowerError, RunError, UnsupportedError
from cross_backend.registry import find_backend, resolve
from tests import needs


@pytest.fixture(autouse=True, scope="module")
def _allowed() -> None:
    needs.mnn()


class _Net(nn.Module):
    """A picture and indices in; floats, whole numbers and truths out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.tokens, self.last = nn.Conv2d(3, 64, 3, padding=1), nn.Embedding(50, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = self.last(functional.hardswish(self.conv(x)).mean((2, 3)) + self.tokens(ids).mean(1))
        return y, y.argmax(1), y > 0


@pytest.fixture(scope="module")
def net() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _Net().eval(), (torch.randn(2, 3, 16, 16), torch.randint(0, 50, (2, 4)))


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


def test_its_certificate_counts_what_mnn_runs(lowered: Callable[[str], Artifact]) -> None:
    counts = {row.name: row.count for row in lowered("mnn").placement.inside}
    assert counts["Convolution"] == 2, "MNN computes a linear layer as a convolution"
    assert counts["ArgMax"] == 1


def test_a_second_run_computes_the_same(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]], lowered: Callable[[str], Artifact]
) -> None:
    """MNN uses the memory of a session's inputs for other tensors while it runs."""
    module, inputs = net
    want = [y.detach().numpy() for y in module(*inputs)]
    with xb.load(lowered("mnn"), threads=1) as session:
        run = session.bind(inputs)
        for _ in range(3):
            got = [np.asarray(y) for y in run()]
            assert [y.dtype for y in got] == [np.float32, np.int64, np.bool_]
            np.testing.assert_allclose(got[0], want[0], atol=1e-5)
            assert (got[1] == want[1]).all() and (got[2] == want[2]).all()


@pytest.mark.slow
def test_float16_halves_the_weights_and_says_what_computes(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]],
    program: torch.export.ExportedProgram,
    lowered: Callable[[str], Artifact],
) -> None:
    module, inputs = net
    errors, sizes = {}, {}
    for precision in ("fp32", "fp16"):
        artifact = lowered(f"mnn?precision={precision}")
        with xb.load(artifact) as session:
            got, want = session(*inputs)[0], module(*inputs)[0].detach()
        errors[precision] = float((got - want).abs().max() / want.abs().max())
        sizes[precision] = artifact.size_bytes
        where = find_backend("mnn").execution(
            artifact, resolve(f"mnn?precision={precision}").options, program.example_inputs[0]
        )
        assert where is not None and (where.device, where.nodes, where.elsewhere) == ("CPU", 1.0, ())
        assert where.precision in {"fp32": ("fp32",), "fp16": ("fp32 with fp16 weights", None)}[precision]
    assert errors["fp32"] < 1e-5 < errors["fp16"] < 1e-2
    assert sizes["fp16"] < 0.8 * sizes["fp32"]


def test_a_backend_that_nobody_asked_for_is_no_result_of_the_processor(
    program: torch.export.ExportedProgram, lowered: Callable[[str], Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session.MnnSession, "backend", lambda _: 3)
    where = find_backend("mnn").execution(lowered("mnn"), resolve("mnn").options, program.example_inputs[0])
    assert where is not None and where.nodes == 0
    assert where.elsewhere == (("the model on MNN's backend 3", 1),)


@pytest.mark.slow
def test_float32_is_as_exact_as_others(lowered: Callable[[str], Artifact]) -> None:
    """MNN's own tiles of Winograd's convolution lose two digits; deep networks add that up."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [layer for _ in range(8) for layer in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(64))]
        net, x = nn.Sequential(*layers).train(), torch.randn(1, 64, 28, 28)
        net(x)
        net.eval()
    want = net(x).detach()
    with xb.load(xb.lower(xb.capture(net, (x,)), "mnn", name="deep")) as session:
        got = session(x)
    assert float((got - want).abs().max() / want.abs().max()) < 3e-5


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_refuses_indices_that_32_bits_do_not_hold(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]], lowered: Callable[[str], Artifact], value: int
) -> None:
    _, (x, ids) = net
    wrong = ids.clone()
    wrong[0, 0] = value
    with xb.load(lowered("mnn")) as session, pytest.raises(RunError, match=f"'ids' holds {value}.*32 bits"):
        session(x, wrong)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (functional.mish, torch.randn(2, 5), r"MNN has no operator for ONNX::Mish"),
        (lambda x: x * 2, torch.randn(2, 2).double(), r"is float64\[2, 2\], and MNN computes in float32"),
        (torch.view_as_complex, torch.randn(3, 2), "complex"),
    ],
    ids=["operator", "float64", "complex"],
)
def test_refuses_with_the_reason(function: Callable[..., Any], inputs: torch.Tensor, reason: str) -> None:
    with pytest.raises((UnsupportedError, LowerError), match=reason) as caught:
        xb.lower(xb.capture(_module(function), (inputs,)), "mnn", name="refused")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: x.float() * 0.1, (torch.arange(-4, 4, dtype=torch.int8),)),
        (lambda x: (x * 20).round().to(torch.int8), (torch.linspace(-1, 1, 8),)),
        (lambda x: (x * 2 + 1, x.float()), (torch.linspace(-1, 1, 8).bfloat16(),)),
        (lambda x: (x.bfloat16() * 3).float(), (torch.linspace(-1, 1, 8),)),
    ],
    ids=["int8 in", "int8 out", "bfloat16 in and out", "bfloat16 inside"],
)
def test_types_that_mnn_lacks_are_those_of_the_program(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> None:
    program = xb.capture(_module(function), inputs)
    with xb.load(xb.lower(program, "mnn", name="types")) as session:
        found = session(*inputs)
    pairs = zip(*(one if isinstance(one, tuple) else (one,) for one in (found, function(*inputs))), strict=True)
    for got, want in pairs:
        assert got.dtype == want.dtype
        torch.testing.assert_close(got.double(), want.double(), rtol=1e-2, atol=1e-2)


def test_attention_whose_export_guards_against_nan_is_taken_apart() -> None:
    module = _module(lambda x, m: functional.scaled_dot_product_attention(x, x, x, attn_mask=m))
    inputs = torch.randn(1, 2, 5, 8), torch.ones(5, 5).tril().bool()
    with xb.load(xb.lower(xb.capture(module, inputs), "mnn", name="attention")) as session:
        torch.testing.assert_close(session(*inputs), module(*inputs), atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_what_crashes_the_converter_is_one_line() -> None:
    class _Lstm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(4, 5, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.layer(x)[0]
            return y

    with pytest.raises(LowerError, match="converter failed") as caught:
        xb.lower(xb.capture(_Lstm().eval(), (torch.randn(2, 7, 4),)), "mnn", name="lstm")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "how", ["cut", *(pytest.param(how, marks=pytest.mark.slow) for how in ("empty", "garbage", "zeros", "other"))]
)
def test_a_damaged_file_is_one_line(lowered: Callable[[str], Artifact], tmp_path: Path, how: str) -> None:
    source = lowered("mnn")
    artifact = source.copy_to(tmp_path, "copy", source.target, "s.npz")
    data = artifact.payload_path.read_bytes()
    other = xb.lower(xb.capture(nn.Linear(4, 2).eval(), (torch.ones(1, 4),)), "mnn", name="other").payload_path
    changed = {
        "empty": b"",
        "garbage": b"garbage" * 99,
        "cut": data[:-200],
        "zeros": data[:64] + bytes(len(data) - 64),
        "other": other.read_bytes(),
    }
    artifact.payload_path.write_bytes(changed[how])
    artifact = replace(artifact, sha256=digest_path(artifact.payload_path))
    resolved = resolve(artifact.target)
    with pytest.raises(LoadError) as caught, resolved.backend.load(artifact, resolved.options):
        pass
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no model")
    with pytest.raises(CrossBackendError) as caught:
        find_backend("mnn").lower(xb.OnnxProgram(damaged), resolve("mnn").options, tmp_path / "out", [])
    assert "\n" not in str(caught.value)


def test_its_profile_has_a_row_for_each_kind_of_operator(
    program: torch.export.ExportedProgram, lowered: Callable[[str], Artifact]
) -> None:
    rows = find_backend("mnn").profile(lowered("mnn"), resolve("mnn").options, program.example_inputs[0], 3)
    counts = {row.name: row.calls for row in rows}
    assert counts == {row.name: row.count for row in lowered("mnn").placement.inside}
    assert all(row.ms >= 0 for row in rows)
