"""int8: quantised programs compile to products of int8, as torch computes them, or are refused with node and line."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch import nn
from torch.nn import functional

import atalla
from atalla.errors import CompileError
from tests.atalla.agreement import agree
from tests.atalla.native import sets_here

Q = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


def quantized(x: torch.Tensor, scale: float = 0.05, zero: int = 3) -> torch.Tensor:
    return Q.quantize_per_tensor(x, scale, zero, *INT8)


def rounded(x: torch.Tensor, scale: float = 0.05, zero: int = 3) -> torch.Tensor:
    """Quantise, and dequantise again."""
    return Q.dequantize_per_tensor(quantized(x, scale, zero), scale, zero, *INT8)


class Weights(nn.Module):
    """Whole numbers, dequantised by a step for each channel of an axis, or by one."""

    def __init__(self, *shape: int, axis: int | None = 0, zero: int = 0) -> None:
        super().__init__()
        self.axis = axis
        self.register_buffer("numbers", torch.randint(-127, 128, shape).to(torch.int8))
        count = 1 if axis is None else shape[axis]
        self.register_buffer("steps", torch.rand(count) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.full((count,), zero))

    def forward(self) -> torch.Tensor:
        if self.axis is None:
            return Q.dequantize_per_tensor(self.numbers, 0.004, 0, *INT8)
        return Q.dequantize_per_channel(self.numbers, self.steps, self.zeros, self.axis, *INT8)


class Convolution(nn.Module):
    """A convolution of int8, and what follows it."""

    def __init__(self, weights: Weights, after: nn.Module, *, is_stored: bool = True, **window: int) -> None:
        super().__init__()
        self.weights, self.after, self.is_stored, self.window = weights, after, is_stored, window
        self.bias = nn.Parameter(torch.randn(weights.numbers.shape[0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        function = functional.conv1d if x.dim() == 3 else functional.conv2d
        made = self.after(function(rounded(x), self.weights(), self.bias, **self.window))
        return rounded(made, 0.1, -5) if self.is_stored else made


class Linear(Convolution):
    """The same by a matrix."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.after(functional.linear(rounded(x), self.weights(), self.bias))
        return rounded(made, 0.1, -5) if self.is_stored else made


def operations(made: atalla.Compiled) -> Counter[str]:
    return Counter(one.op.name for one in made.program.instructions)


def image(*shape: int) -> tuple[torch.Tensor]:
    return (torch.randn(*shape) * 2,)


PRODUCTS = {
    "plain": (lambda: Convolution(Weights(24, 8, 3, 3), nn.ReLU(), padding=1), image(2, 8, 9, 9), "QCONV2D"),
    "pointwise": (lambda: Convolution(Weights(40, 64, 1, 1), nn.Hardtanh(-1, 2)), image(1, 64, 7, 7), "QCONV2D"),
    "stem": (lambda: Convolution(Weights(16, 3, 3, 3), nn.ReLU6(), stride=2), image(1, 3, 17, 19), "QCONV2D"),
    "grouped": (lambda: Convolution(Weights(12, 5, 3, 3), nn.Identity(), groups=2), image(1, 10, 8, 8), "QCONV2D"),
    "dilated": (lambda: Convolution(Weights(8, 8, 3, 3), nn.Identity(), dilation=2), image(1, 8, 9, 9), "QCONV2D"),
    "row": (lambda: Convolution(Weights(8, 8, 3), nn.ReLU(), padding=1), image(1, 8, 20), "QCONV2D"),
    "depthwise": (
        lambda: Convolution(Weights(24, 1, 5, 5), nn.ReLU(), padding=2, groups=24), image(1, 24, 9, 9), "QDWCONV2D",
    ),
    "one step": (lambda: Convolution(Weights(9, 8, 3, 3, axis=None), nn.ReLU()), image(1, 8, 9, 9), "QCONV2D"),
    "floats": (lambda: Convolution(Weights(9, 8, 3, 3), nn.ReLU(), is_stored=False), image(1, 8, 9, 9), "QCONV2D"),
    "hardswish": (lambda: Convolution(Weights(9, 8, 3, 3), nn.Hardswish()), image(1, 8, 9, 9), "QCONV2D"),
    "matrix": (lambda: Linear(Weights(10, 33), nn.ReLU()), image(5, 33), "QGEMM"),
    "matrices": (lambda: Linear(Weights(10, 64), nn.Identity(), is_stored=False), image(2, 3, 64), "QGEMM"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_of_int8_and_within_a_step_of_torch(name: str) -> None:
    make, inputs, operation = PRODUCTS[name]
    torch.manual_seed(0)
    made = agree([(make(), inputs)], 0.101 if name == "hardswish" else 0.1001, bits=name != "hardswish")
    assert operations(made)[operation] == 1 and not {"GEMM", "CONV2D", "DWCONV2D"} & set(operations(made))


@pytest.mark.parametrize("weights", [Weights(9, 8, 3, 3, axis=1), Weights(9, 8, 3, 3, zero=4)])
def test_what_is_no_product_of_int8_is_right_in_float32(weights: Weights) -> None:
    """A step for each channel of the input, and weights whose zero is another."""
    made = agree([(Convolution(weights, nn.ReLU(), is_stored=False), image(1, 8, 9, 9))], 1e-4)
    assert operations(made)["CONV2D"] == 1


def test_sums_that_no_int32_holds_stay_float32() -> None:
    made = agree([(Linear(Weights(2, 65537), nn.Identity(), is_stored=False), image(1, 65537))], 1e-3)
    assert operations(made)["GEMM"] == 1 and not operations(made)["QGEMM"]


class Sums(nn.Module):
    """What lies between tensors of int8."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        a, b = rounded(x), rounded(y, 0.03, -7)
        gate = rounded(functional.hardsigmoid(rounded(a.mean((2, 3), keepdim=True), 0.02, 0)), 1 / 256, -128)
        pooled, again = functional.max_pool2d(a, 3, 2, 1), functional.max_pool2d(a, 2)
        return [
            rounded(functional.relu(a + b), 0.07, -100), rounded(a * gate, 0.04, 9), rounded(functional.hardswish(b)),
            rounded(pooled), rounded(again, 0.06, 3), torch.cat([a, b], 1), quantized(x), rounded(a),
        ]  # fmt: skip


def test_sums_products_tables_and_pools_give_the_bits_of_torch() -> None:
    x = image(1, 24, 8, 8)[0].contiguous(memory_format=torch.channels_last)
    made = agree([(Sums(), (x, x.flip(1)))], 1e-6, bits=True)
    assert operations(made)["POOL2D"] == 2 and operations(made)["GATHER"] >= 2
    pools = [one.dst for one in made.program.instructions if one.op is atalla.isa.Op.POOL2D]
    assert sorted(one.dtype.name for one in pools if one is not None) == ["F32", "I8"]


class Divided(nn.Module):
    """A whole number by each element, of which none is 0 when it runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, 100).floor_divide(x)


def test_a_table_that_cannot_be_worked_out_whole_stays_a_chain() -> None:
    made = agree([(Divided(), (torch.tensor([1, -3, 7], dtype=torch.int8),))], bits=True)
    assert operations(made)["EW"] == 1 and not operations(made)["GATHER"]


class Types(nn.Module):
    """Quantised types and ranges that have no product of their own."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        scales, zeros = torch.tensor([0.01, 0.5, 3.0]), torch.tensor([0, -128, 127])
        made = []
        for low, high, dtype in (
            (0, 255, torch.uint8), (-32768, 32767, torch.int16), (-8, 7, torch.int8), (-127, 127, torch.int8),
            (-(1 << 31), (1 << 31) - 1, torch.int32),
        ):  # fmt: skip
            stored = Q.quantize_per_tensor(x, 0.037, 5, low, high, dtype)
            made += [stored, Q.dequantize_per_tensor(stored, 0.037, 5, low, high, dtype)]
        for axis in (0, -1):
            stored = Q.quantize_per_channel(x, scales, zeros, axis % 2, *INT8)
            made += [stored, Q.dequantize_per_channel(stored, scales, zeros, axis % 2, *INT8)]
        return [*made, quantized(x, 1e-20, -128), quantized(x, 1e20, 127)]


def test_every_type_and_range_gives_the_bits_of_torch() -> None:
    x = torch.tensor([[0.0, -0.0, 1e9], [-1e9, 0.0555, -0.1295], [7.3, 1e-30, -2.5]])
    agree([(Types(), (x,)), (Types(), (torch.zeros(3, 3),))], 1e-6, bits=True)


@pytest.mark.parametrize(
    ("scale", "zero", "reason"),
    [
        (0.0, 0, "Scales must be numbers above 0"), (-1.0, 0, "Scales must be numbers above 0"),
        (float("nan"), 0, "Scales must be numbers above 0"), (float("inf"), 0, "Scales must be numbers above 0"),
        (1.0, 128, "Zero points must be numbers that the quantised type holds"),
    ],
)  # fmt: skip
def test_odd_scales_are_refused_with_node_and_line(scale: float, zero: int, reason: str) -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Q.dequantize_per_tensor(x, scale, zero, *INT8)

    program = torch.export.export(Odd(), (torch.zeros(3, dtype=torch.int8),))
    with pytest.raises(CompileError, match=rf"^dequantize_per_tensor \(test_int8\.py:\d+ in .*{reason}") as caught:
        atalla.compile(program)
    assert "\n" not in str(caught.value)


def test_scales_that_are_worked_out_in_every_run_are_refused() -> None:
    class Dynamic(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scale, zero = Q.choose_qparams.tensor(x, -128, 127, 1e-7, torch.int8)
            return Q.quantize_per_tensor.tensor(x, scale, zero, *INT8)

    program = torch.export.export(Dynamic(), (torch.randn(3),))
    with pytest.raises(CompileError, match=r"choose_qparams.*scales that are worked out in every run"):
        atalla.compile(program)


@pytest.mark.slow
def test_a_network_after_pt2e_is_whole_inside() -> None:
    """Convolutions, a residual and a classifier: as torch's own emulation, to a step of the output."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Hardswish())
            self.block = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU(), nn.Conv2d(16, 16, 1))
            self.head = nn.Linear(16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.head(functional.relu(x + self.block(x)).mean((2, 3)))

    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(Net().eval(), inputs).module(), quantizer)
    prepared(*inputs)
    converted = convert_pt2e(prepared)
    made = atalla.compile(torch.export.export(converted, inputs))
    assert not made.fallbacks
    counts = operations(made)
    assert (counts["QCONV2D"], counts["QDWCONV2D"], counts["QGEMM"]) == (2, 1, 1), counts
    step = max(
        float(one)
        for one in re.findall(r"quantize_per_tensor\.default\(linear, ([\d.]+)", str(converted.code)) or [0.05]
    )
    wanted = converted(*inputs)
    found = [atalla.load(made.data, isa=isa).run(inputs)[0].clone() for isa in sorted(sets_here() | {"reference"})]
    assert all(torch.equal(one, found[0]) for one in found)
    assert float((found[0] - wanted).abs().max()) <= 2 * step


@pytest.mark.slow
def test_a_file_of_a_quantised_program_opens_where_nothing_knows_its_operators_yet(tmp_path: Path) -> None:
    """Their operators are torch's own, but torch has them only once their module is imported."""
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Linear(Weights(3, 4), nn.ReLU()).eval(), image(2, 4)), path)
    by_atalla = "from atalla.cli._models import _read; _read(path, trust=False)"
    by_toolkit = "from cross_backend.program.pt2 import load_pt2; load_pt2(path)"
    for code in (by_atalla, by_toolkit):
        script = f"import sys; from pathlib import Path; path = Path(sys.argv[1]); {code}"
        done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
