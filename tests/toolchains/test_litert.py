"""LiteRT's converter in its toolchain: what it writes of a program, in which precision, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import cross_backend as xb
from cross_backend.api.models import stored
from cross_backend.artifact import Artifact
from cross_backend.backends._quantize import int8_quantizer, quantize
from cross_backend.cache import Cache
from cross_backend.errors import LowerError, UnsupportedError
from cross_backend.localization.attempt import DIFFERS, SAME, Attempt
from cross_backend.lowering.lower import Lower
from cross_backend.registry import resolve
from cross_backend.worker.process import Worker
from tests.unit.localization.test_reproducer import RIGHT

Lowering = Callable[[torch.export.ExportedProgram, str], Artifact]


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
def lower() -> Iterator[Lowering]:
    """Give a function that lowers in one process: to import the converter takes longer than to convert."""
    cache = Cache()
    with Worker(cache.log("lower"), resolve("litert").lowering_python) as worker:

        def ask(program: torch.export.ExportedProgram, target: str) -> Artifact:
            folder = stored(program, "model", cache).folder
            manifest, _ = worker.ask(Lower(folder, target, bundled=False, cache=cache.root), 600)
            return Artifact.read(manifest)

        yield ask


@pytest.fixture(scope="module")
def lowered(program: torch.export.ExportedProgram, lower: Lowering) -> Callable[[str], Artifact]:
    return lambda target: lower(program, target)


def _module(function: Callable[..., Any]) -> nn.Module:
    class _Module(nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return function(*inputs)

    return _Module().eval()


def test_its_certificate_says_what_xnnpack_takes(lowered: Callable[[str], Artifact]) -> None:
    placement = lowered("litert").placement
    inside = {row.name: row.count for row in placement.inside}
    left = {row.name: row.count for row in placement.left}
    assert placement.delegates == {"XNNPACK": 2}
    assert inside["CONV_2D"] == inside["FULLY_CONNECTED"] == inside["HARD_SWISH"] == 1
    assert left["ARG_MAX"] == left["EMBEDDING_LOOKUP"] == 1
    assert placement.flop_coverage == 1


def test_answers_in_the_models_layout_and_types(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]], lowered: Callable[[str], Artifact]
) -> None:
    module, inputs = net
    with xb.load(lowered("litert"), threads=1) as session:
        y, label, positive = session(*inputs)
    want = module(*inputs)
    torch.testing.assert_close(y, want[0].detach(), atol=1e-5, rtol=1e-5)
    assert label.dtype == torch.int64 and torch.equal(label, want[1])
    assert positive.dtype == torch.bool and torch.equal(positive, want[2])


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: (x, x * 2, x * 2, torch.ones(3)), (torch.randn(2, 3),)),
        (lambda *xs: sum(xs[::-1]) * xs[10], tuple(torch.randn(3) for _ in range(12))),
        (lambda x: x * 2, (torch.randn(0, 3),)),
        (lambda x: x.float() / 255, (torch.randint(0, 255, (2, 3), dtype=torch.uint8),)),
        (lambda x: x + 1, (torch.randint(0, 100, (2, 3), dtype=torch.int8),)),
        (lambda x: x * 2, (torch.randn(2, 3).half(),)),
        (lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True), (torch.randn(1, 2, 5, 8),)),
        (functional.gelu, (torch.randn(2, 8),)),
    ],
    ids=["outputs twice", "twelve inputs", "empty", "uint8", "int8", "float16", "attention", "composite"],
)
def test_corners_come_out_right(
    lower: Lowering, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> None:
    module = _module(function)
    with xb.load(lower(xb.capture(module, inputs), "litert")) as session:
        got, want = session(*inputs), module(*inputs)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (torch.linalg.det, torch.randn(4, 4), r"LiteRT's converter has no form for aten\._linalg_det\.default"),
        (lambda x: x * 2, torch.randn(2, 2).double(), "is float64, which its converter makes float32"),
        (lambda x: x.sort(), torch.randn(2, 5), "converter failed"),
        (torch.view_as_complex, torch.randn(3, 2), "converter failed"),
    ],
    ids=["operator", "float64", "failure", "complex"],
)
def test_refuses_with_the_reason(
    lower: Lowering, function: Callable[..., Any], inputs: torch.Tensor, reason: str
) -> None:
    with pytest.raises((UnsupportedError, LowerError), match=reason) as caught:
        lower(xb.capture(_module(function), (inputs,)), "litert")
    assert "\n" not in str(caught.value)


def _error(artifact: Artifact, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """Give the largest deviation of the first output, as a share of its largest number."""
    with xb.load(artifact) as session:
        got, want = session(*inputs)[0], module(*inputs)[0].detach()
    return float((got - want).abs().max() / want.abs().max())


@pytest.mark.parametrize(
    ("precision", "low", "error", "size"),
    [
        ("fp16", None, 1e-2, 0.6),
        ("int8", {"CONV_2D", "FULLY_CONNECTED"}, 1e-1, 0.75),
        ("int8dyn", {"CONV_2D", "FULLY_CONNECTED"}, 1e-1, 0.45),
        ("int4w", {"FULLY_CONNECTED"}, 3e-1, 0.8),
    ],
)
def test_each_precision_computes_what_its_certificate_says(
    net: tuple[nn.Module, tuple[torch.Tensor, ...]],
    lowered: Callable[[str], Artifact],
    precision: str,
    low: set[str] | None,
    error: float,
    size: float,
) -> None:
    full, artifact = lowered("litert"), lowered(f"litert?precision={precision}")
    assert _error(full, *net) < 1e-5 < _error(artifact, *net) < error
    assert artifact.size_bytes < size * full.size_bytes
    arithmetic = artifact.placement.arithmetic
    if low is None:
        assert arithmetic is None
    else:
        assert arithmetic is not None and low <= {row.name for row in arithmetic.low}
    resolved = resolve(f"litert?precision={precision}")
    where = resolved.backend.execution(artifact, resolved.options, net[1])
    assert where is not None and where.precision == ("fp32 with fp16 weights" if precision == "fp16" else None)


def test_what_xnnpack_takes_in_float_only_stays_in_float(lowered: Callable[[str], Artifact]) -> None:
    """In 8 bits the runtime's own kernel would compute it, many times as slowly."""
    plain, artifact = lowered("litert").placement, lowered("litert?precision=int8").placement
    assert artifact.arithmetic is not None
    assert "HARD_SWISH" in {row.name for row in artifact.arithmetic.kept}
    assert "HARD_SWISH" in {row.name for row in artifact.inside}
    assert {row.name for row in artifact.left} <= {row.name for row in plain.left}
    assert artifact.arithmetic.conversions >= 3


@pytest.mark.parametrize(
    ("function", "inputs", "precision", "reason"),
    [
        (torch.sin, (torch.randn(2, 3),), "int8", "int8 changes nothing"),
        (torch.relu, (torch.randn(2, 3),), "int8dyn", "int8dyn changes nothing"),
        (torch.relu, (torch.randn(2, 3),), "int4w", "no matrix product of constant weights"),
        (lambda x: functional.linear(x, torch.ones(4, 24)), (torch.randn(2, 24),), "int4w", "int4w"),
    ],
    ids=["int8", "int8dyn", "int4w", "no whole group"],
)
def test_a_precision_that_changes_nothing_is_refused(
    lower: Lowering, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], precision: str, reason: str
) -> None:
    with pytest.raises((UnsupportedError, LowerError), match=reason) as caught:
        lower(xb.capture(_module(function), inputs), f"litert?precision={precision}")
    assert "\n" not in str(caught.value)


def test_calibration_takes_inputs_of_every_type(lower: Lowering) -> None:
    module = _module(lambda x, i, b, u: (functional.linear(x, torch.ones(64, 64))[i] + u.float()) * b)
    inputs = (
        torch.randn(4, 64),
        torch.tensor([3, 1]),
        torch.tensor([[True], [False]]),
        torch.randint(0, 9, (2, 64), dtype=torch.uint8),
    )
    artifact = lower(xb.capture(module, inputs), "litert?precision=int8")
    with xb.load(artifact) as session:
        got, want = session(*inputs), module(*inputs)
    assert (got - want).abs().max() < 0.05 * want.abs().max()


def test_hidden_scores_leave_the_others_their_steps(lower: Lowering) -> None:
    """In one scale with a score of −10,000, all others would be the same number of 8 bits."""
    torch.manual_seed(0)
    into, out, seen = torch.randn(8, 32), torch.randn(32, 8), torch.arange(8) < 6

    def attend(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return functional.linear(torch.where(seen, functional.linear(x, into), -1e4).softmax(-1), out)

    module, inputs = _module(attend), (0.5 * torch.randn(4, 32), seen)
    artifact = lower(xb.capture(module, inputs), "litert?precision=int8")
    assert artifact.placement.arithmetic is not None and artifact.placement.arithmetic.low
    with xb.load(artifact) as session:
        got, want = session(*inputs), module(*inputs)
    assert (got - want).norm() < 0.05 * want.norm()


@pytest.mark.parametrize("target", ["litert", "litert?precision=int8"])
def test_a_model_that_is_quantised_already_is_refused(lower: Lowering, target: str) -> None:
    """Its weights are whole numbers, for which the converter has no type with a scale a channel."""
    module, inputs = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval(), (torch.randn(1, 3, 8, 8),)
    quantised = quantize(xb.capture(module, inputs), int8_quantizer(), [[inputs[0].numpy()]])
    with pytest.raises(UnsupportedError, match=r"quantised already.*\?precision=int8"):
        lower(quantised, target)


def test_a_script_with_the_vendors_packages_alone_computes_what_torch_does(tmp_path: Path) -> None:
    resolved = resolve("litert")
    text = RIGHT + "\n".join(resolved.backend.reproduction(resolved.options))
    with Worker(tmp_path / "log", resolved.lowering_python) as worker:
        tried = worker.ask(Attempt(text), 120)
    assert tried.kind in {SAME, DIFFERS} and tried.deviation < 1e-6, tried.detail
