"""Quantised operators one by one: each gives the bits of torch's, by the reference and by every kernel; what is wrong
in a program is told in one line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import atalla
from atalla.errors import CompileError
from tests.atalla.agreement import Case, agree
from tests.atalla.int8_nets import INT8, Calls, Q

RANGES = {
    torch.int8: (-128, 127), torch.uint8: (0, 255),
    torch.int16: (-32768, 32767), torch.int32: (-(1 << 31), (1 << 31) - 1),
}  # fmt: skip
TYPES = list(RANGES)
ODD = [math.inf, -math.inf, 0.0, -0.0, 0.5, 1.5, -2.5, 3e38, -3e38, 1e-40]


def numbers(*shape: int, odd: bool = True) -> torch.Tensor:
    """Return floats, some of them odd."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 20
    if odd:
        made.flatten()[: len(ODD)] = torch.tensor(ODD)
    return made


def whole(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Return whole numbers of a type, both ends among them."""
    low, high = RANGES[dtype]
    made = torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(0))
    made.flatten()[:2] = torch.tensor([low, high])
    return made.to(dtype)


def settings(dtype: torch.dtype) -> Iterator[tuple[float, int, tuple[int, int]]]:
    """Give scales, zero points and ranges."""
    low, high = RANGES[dtype]
    narrow = [(-8, 7), (-127, 127)] if low else [(0, 15), (1, 255)]
    yield 0.05, low, (low, high)
    yield 1e-8, high, (low, high)
    yield 1e6, 3, (low, high)
    yield 3e38, 0, (low, high)
    yield 1e-40, 0, (low, high)
    for bounds in narrow:
        yield 0.37, 2, bounds


def per_tensor(dtype: torch.dtype) -> Iterator[Case]:
    x = numbers(3, 37)
    for scale, zero, bounds in settings(dtype):
        if scale > 1e-30 or dtype is not torch.int32:  # 0 by infinity is NaN, which int32 has another number for
            yield Calls(lambda x, s=scale, z=zero, b=bounds: Q.quantize_per_tensor(x, s, z, *b, dtype)), (x,)
        back = whole(dtype, 3, 37)
        yield Calls(lambda x, s=scale, z=zero, b=bounds: Q.dequantize_per_tensor(x, s, z, *b, dtype)), (back,)
    for shape in ((), (0, 5), (4,)):
        x = numbers(*shape, odd=False)
        yield Calls(lambda x: Q.quantize_per_tensor(x, 0.5, 1, *RANGES[dtype], dtype)), (x,)
        yield Calls(lambda x: Q.dequantize_per_tensor(x, 0.5, 1, *RANGES[dtype], dtype)), (x.to(dtype),)


def per_channel(dtype: torch.dtype) -> Iterator[Case]:
    low, high = RANGES[dtype]
    for axis, zero_points, bounds in ((0, True, (low, high)), (1, True, (1, 7)), (-1, False, (low, high))):
        x, back = numbers(3, 4, 19), whole(dtype, 3, 4, 19)
        extent = x.shape[axis]
        given = {"scales": torch.linspace(0.1, 7.0, extent)}
        if zero_points:
            given["zeros"] = torch.linspace(max(low, -1000), min(high, 1000), extent).long()

        def quantize(x: Any, s: Any, z: Any = None, axis: int = axis, bounds: Any = bounds) -> Any:
            return Q.quantize_per_channel(x, s, torch.zeros_like(s).long() if z is None else z, axis, *bounds, dtype)

        def dequantize(x: Any, s: Any, z: Any = None, axis: int = axis, bounds: Any = bounds) -> Any:
            return Q.dequantize_per_channel(x, s, z, axis, *bounds, dtype)

        yield Calls(quantize, **given), (x,)
        yield Calls(dequantize, **given), (back,)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_rule_gives_the_bits_of_torch(dtype: torch.dtype) -> None:
    agree([*per_tensor(dtype), *per_channel(dtype)], tolerance=0, bits=True)


def test_scales_in_tensors_and_what_is_known_are_worked_out() -> None:
    scale, zero = torch.tensor([0.25]), torch.tensor([-3])
    x, known = numbers(2, 9), whole(torch.int8, 5, 4)

    def by_tensors(x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return Q.dequantize_per_tensor.tensor(Q.quantize_per_tensor.tensor(x, s, z, *INT8), s, z, *INT8)

    def of_known(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x + Q.dequantize_per_tensor(w, 0.5, 3, *INT8)

    def scalar(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x + Q.dequantize_per_tensor(w, 0.5, 3, *INT8)

    cases: list[Case] = [
        (Calls(by_tensors, s=scale, z=zero), (x,)),
        (Calls(of_known, w=known), (numbers(5, 4, odd=False),)),
        (Calls(scalar, w=torch.tensor(7, dtype=torch.int8)), (numbers(5, 4, odd=False),)),
    ]
    agree(cases, tolerance=0, bits=True)


def refusal(function: Any, *inputs: torch.Tensor, **buffers: torch.Tensor) -> str:
    """Return what the compiler says of a program."""
    program = torch.export.export(Calls(function, **buffers), inputs, strict=False)
    with pytest.raises(CompileError) as caught:
        atalla.compile(program)
    return str(caught.value)


def quantize_with(scale: float, zero: int, low: int = -128, high: int = 127, dtype: torch.dtype = torch.int8) -> Any:
    """Return a function that quantises so."""
    return lambda x: Q.quantize_per_tensor(x, scale, zero, low, high, dtype)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (quantize_with(0.0, 0), "numbers above 0"),
        (quantize_with(-0.5, 0), "numbers above 0"),
        (quantize_with(math.nan, 0), "numbers above 0"),
        (quantize_with(math.inf, 0), "numbers above 0"),
        (quantize_with(0.5, 200), "Zero points"),
        (quantize_with(0.5, -1, 0, 255, torch.uint8), "Zero points"),
        (lambda x: Q.quantize_per_tensor.tensor(x, x.abs().amax(), torch.tensor(0), *INT8), "must be known"),
        (lambda x: Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8), "in every run"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(function: Any, words: str) -> None:
    said = refusal(function, numbers(3, 4, odd=False))
    assert "quantize" in said or "choose" in said, said
    assert "int8_nets.py" in said, said
    assert words in said, said
    assert "\n" not in said, said


@pytest.mark.parametrize(
    ("scales", "zeros", "axis", "words"),
    [
        ([0.1, 0.0, 0.1, 0.1], [0, 0, 0, 0], 1, "numbers above 0"),
        ([0.1, math.nan, 0.1, 0.1], [0, 0, 0, 0], 1, "numbers above 0"),
        ([0.1, 0.1, 0.1, 0.1], [0, 0, 0, 200], 1, "Zero points"),
        ([0.1, 0.1], [0, 0], 1, "a scale for each"),
    ],
)
def test_what_is_wrong_of_a_channel_is_told_in_a_line(scales: Any, zeros: Any, axis: int, words: str) -> None:
    said = refusal(
        lambda x, s, z: Q.dequantize_per_channel(x, s, z, axis, *INT8),
        whole(torch.int8, 3, 4), s=torch.tensor(scales), z=torch.tensor(zeros),
    )  # fmt: skip
    assert "dequantize_per_channel" in said, said
    assert "int8_nets.py" in said, said
    assert words in said, said
    assert "\n" not in said, said
