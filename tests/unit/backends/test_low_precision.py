"""Low precisions: what every vendor makes of a program, what computes in it, and what is refused with which words."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.backends._quantize import GROUP
from cross_backend.errors import UnsupportedError
from cross_backend.names.precisions import CALIBRATED, MEANINGS, QUANTISED
from cross_backend.placement import Arithmetic, Placement, split_arithmetic
from cross_backend.registry import backends, check_targets, resolve, with_precision
from cross_backend.verify.compare import PRECISIONS, compare_outputs

HIDDEN = 4 * GROUP
LOW = {
    "xnnpack?precision=int8dyn": {"FullyConnected": 2},
    "xnnpack?precision=int4w": {"FullyConnected": 2},
    "cpu?precision=int8": {"QLinearConv": 1, "QGemm": 2},
    "cpu?precision=int8dyn": {"DynamicQuantizeMatMul": 2},
    "cpu?precision=int4w": {"MatMulNBits": 2},
    "openvino?precision=int8": {"Convolution": 1, "FullyConnected": 2},
    "openvino?precision=int8dyn": {"FullyConnected": 2},
    "openvino?precision=int4w": {"FullyConnected": 2},
    "torch?precision=int8dyn": {"_int_mm": 2},
    "torch?precision=int4w": {},
    "compile?precision=int8dyn": {"_int_mm": 2},
    "aot_inductor?precision=int4w": None,
}
"""Target → operators that compute in that precision; None where the file does not tell."""
SLOW = ("compile", "aot_inductor", "xnnpack")


class Net(torch.nn.Module):
    """A convolution, which some quantise, and two matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.first, self.second = torch.nn.Linear(8 * 16, HIDDEN), torch.nn.Linear(HIDDEN, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(self.conv(x).relu().flatten(1)).relu())


@pytest.fixture(scope="module")
def net() -> tuple[torch.nn.Module, torch.Tensor, object]:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(1, 3, 4, 4)
    return model, x, xb.capture(model, (x,))


@pytest.mark.parametrize(
    "target", [pytest.param(one, marks=pytest.mark.slow if one.startswith(SLOW) else ()) for one in LOW]
)
def test_it_is_near_and_its_file_says_what_computes_in_it(
    net: tuple[torch.nn.Module, torch.Tensor, object], target: str
) -> None:
    model, x, program = net
    artifact = xb.lower(program, target)
    precision = target.partition("=")[2]
    arithmetic = artifact.placement.arithmetic
    if LOW[target] is None:
        assert arithmetic is None
    else:
        assert arithmetic is not None
        found = {row.name: row.count for row in arithmetic.low}
        assert LOW[target].items() <= found.items()
        assert arithmetic.kept or found
    assert Placement.from_json(artifact.placement.to_json()) == artifact.placement
    assert (artifact.calibration is not None) == (precision in CALIBRATED)
    with xb.load(artifact, trust=True) as session:
        comparison = compare_outputs({"expected": [model(x).detach().numpy()]}, [[session(x.numpy())]], precision)
    assert comparison.verdict, comparison.why
    assert 10 < comparison.sqnr_db < 80, "an exact result would mean that nothing was quantised"


def test_every_word_has_its_limits_and_every_backend_speaks_the_grammar() -> None:
    assert set(PRECISIONS) == set(MEANINGS) >= QUANTISED >= CALIBRATED
    for backend in backends():
        assert set(backend.precisions) <= set(MEANINGS), backend.name
        assert set(backend.lacks) <= set(MEANINGS) - set(backend.precisions)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("xnnpack?precision=bf16", "executorch.xnnpack has no bf16. It has fp32, fp16, int8, int8dyn, int4w."),
        ("portable?precision=int8", "executorch.portable has no int8. It has fp32, fp16."),
        ("torch?precision=int8", "torch.eager has no int8: torch computes programs with calibrated scales in float32."),
    ],
)
def test_a_precision_that_a_backend_lacks_is_unsupported_and_no_mistake(target: str, words: str) -> None:
    check_targets([target])
    with pytest.raises(UnsupportedError, match=words.replace(".", r"\.")):
        resolve(target)


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        ("xnnpack?precision=int8", torch.bfloat16),
        ("xnnpack?precision=int8", torch.float16),
        ("atalla?precision=int8", torch.bfloat16),
        ("cpu?precision=int8", torch.bfloat16),
    ],
)
def test_weights_of_16_bits_are_not_quantised(target: str, dtype: torch.dtype) -> None:
    program = xb.capture(torch.nn.Linear(8, 4).to(dtype), (torch.randn(2, 8).to(dtype),))
    with pytest.raises(UnsupportedError, match=r"\(module\.float\(\)\)"):
        xb.lower(program, target, name="narrow")


@pytest.mark.slow
def test_what_is_quantised_already_is_not_quantised_again(net: tuple[torch.nn.Module, torch.Tensor, object]) -> None:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from cross_backend.backends._quantize import int8_quantizer

    model, x, _ = net
    prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), int8_quantizer())
    prepared(x)
    program = xb.capture(convert_pt2e(prepared), (x,))
    for target in ("xnnpack?precision=int8", "torch?precision=int8dyn", "cpu?precision=int8"):
        with pytest.raises(UnsupportedError, match="quantised already"):
            xb.lower(program, target)


@pytest.mark.parametrize("target", ["cpu?precision=int4w", "torch?precision=int8dyn", "xnnpack?precision=int4w"])
def test_a_program_without_matrix_products_is_unsupported(target: str) -> None:
    program = xb.capture(
        torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval(), (torch.randn(1, 3, 8, 8),)
    )
    with pytest.raises(UnsupportedError, match="matrix product of constant weights"):
        xb.lower(program, target)


def test_openvino_leaves_rows_that_are_no_whole_groups_in_float() -> None:
    torch.manual_seed(0)
    layers, x = (torch.nn.Linear(10, 64).eval(), torch.nn.Linear(64, 4).eval()), torch.randn(1, 10)
    with pytest.raises(UnsupportedError, match="multiple of 32 values"):
        xb.lower(xb.capture(layers[0], (x,)), "openvino?precision=int4w")
    both = torch.nn.Sequential(*layers).eval()
    artifact = xb.lower(xb.capture(both, (x,)), "openvino?precision=int4w")
    with xb.load(artifact) as session, torch.no_grad():
        np.testing.assert_allclose(session(x), both(x), atol=0.2)


def test_sums_of_eight_bits_do_not_overflow_without_vnni() -> None:
    """Sums of products of 8 bits at the ends of the range: where the processor saturates them, a third is lost."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(512, 16, bias=False).eval()
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.weight[:, ::7] = -1.0
    x = torch.ones(1, 512)
    artifact = xb.lower(xb.capture(layer, (x,)), "cpu?precision=int8")
    with xb.load(artifact) as session:
        np.testing.assert_allclose(session(x.numpy()), layer(x).detach().numpy(), rtol=0.02)


def test_a_level_of_the_payload_or_of_the_session() -> None:
    """OpenVINO's plugin chooses float types when it opens a file; quantised weights are another file."""
    lowered = {
        one: str(resolve(f"openvino?precision={one}").lowering) for one in resolve("openvino").backend.precisions
    }
    assert {one for one, target in lowered.items() if target == "openvino"} == set(lowered) - QUANTISED
    for first, second in itertools.combinations(QUANTISED, 2):
        assert lowered[first] != lowered[second]


def test_operators_are_told_apart() -> None:
    found = split_arithmetic(
        {"QLinearConv": 3, "Conv": 2, "QuantizeLinear": 4, "Reshape": 1, "Transpose": 5},
        is_low=lambda name: name.startswith("QLinear"),
        is_conversion=lambda name: name == "QuantizeLinear",
    )
    assert [(row.name, row.count) for row in (*found.low, *found.kept)] == [("QLinearConv", 3), ("Conv", 2)]
    assert found.conversions == 4
    assert str(found) == "3 operators, 2 stay in float, 4 conversions"


def test_a_negative_count_in_a_certificate_is_refused() -> None:
    row = Placement(arithmetic=Arithmetic((), (), -1)).to_json()
    with pytest.raises(ValueError, match="negative"):
        Placement.from_json(row)


def test_with_precision_asks_everyone() -> None:
    assert with_precision("torch", "int4w") == "torch?precision=int4w"
    assert with_precision("torch?precision=fp32", "int4w") == "torch?precision=fp32"
    assert with_precision("null", "fp32") == "null"
    assert with_precision("null", "int8") == "null?precision=int8"


def test_the_table_of_the_documentation_is_complete() -> None:
    text = (Path(__file__).parents[3] / "docs" / "precision.md").read_text()
    for word in MEANINGS:
        assert f"`{word}`" in text
