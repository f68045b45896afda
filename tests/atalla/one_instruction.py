"""Programs of one instruction, made by a seed: what its forms share, whatever its numbers are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from atalla import ir
from atalla.blob.arena import plan_arena
from atalla.blob.reader import parse
from atalla.blob.writer import encode
from atalla.dtypes import dtype_of, torch_dtype_of
from atalla.isa import Dtype, Space
from atalla.run.interpreter import Interpreter

Given = tuple[bytes, tuple[torch.Tensor, ...], torch.Tensor]
"""A blob, its inputs, and what the reference makes of them."""
DEPTHS = (1, 3, 4, 16, 31, 32, 33, 63, 64, 65, 129, 256, 300)
ROWS = ((1,), (2,), (5,), (12,), (13,), (16,), (17,), (33,), (2, 25), (300,))
COLUMNS = (1, 5, 16, 17, 32, 40, 100)


class Made:
    """What a seed chooses."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)

    def one(self, *values: Any) -> Any:
        return self.choice.choice(values)

    def maybe(self) -> bool:
        return self.choice.random() < 0.5


@dataclass(frozen=True)
class Window:
    """The form of a convolution."""

    kind: str  # plain, stem, grouped or depthwise
    shape: tuple[int, ...]  # of the image
    out: tuple[int, ...]
    taps: int
    attributes: dict[str, int]

    @property
    def depth(self) -> int:
        """Channels of a group."""
        return self.shape[1] // self.attributes["groups"]


def window(made: Made, *kinds: str) -> Window:
    """Return a convolution of any form."""
    kind = made.one(*kinds)
    high, wide = kernel = made.one((1, 1), (1, 1), (3, 3), (3, 5), (5, 5), (7, 7), (2, 1))
    stride, dilation = (made.one(1, 1, 2), made.one(1, 1, 2, 3)), (made.one(1, 1, 2), made.one(1, 1, 2))
    groups, each = {
        "plain": (1, made.one(5, 8, 16, 24, 40, 64, 65, 128)), "stem": (1, made.one(1, 2, 3, 4)),
        "grouped": (made.one(2, 3, 7), made.one(1, 4, 8, 17, 32)),
        "depthwise": (made.one(1, 5, 8, 16, 24, 40, 33, 100), 1),
    }[kind]  # fmt: skip
    columns = groups if kind == "depthwise" else groups * made.one(each, 1, 7, 16, 24, 33)
    top, left, bottom, right = made.one(0, 1, high // 2), made.one(0, 1, wide // 2), made.one(0, 1), made.one(0, 1)
    size = [(k - 1) * d + 1 + made.choice.randint(0, 20) for k, d in zip(kernel, dilation, strict=True)]
    out = [
        (n + pads - (k - 1) * d - 1) // s + 1
        for n, pads, k, d, s in zip(size, (top + bottom, left + right), kernel, dilation, stride, strict=True)
    ]
    batch = made.one(1, 2)
    attributes = {
        "stride_h": stride[0], "stride_w": stride[1], "top": top, "left": left, "bottom": bottom, "right": right,
        "dilation_h": dilation[0], "dilation_w": dilation[1], "kernel_h": high, "kernel_w": wide, "groups": groups,
    }  # fmt: skip
    return Window(kind, (batch, groups * each, *size), (batch, columns, *out), high * wide, attributes)


def image(made: Made, form: Window, dtype: Dtype) -> ir.Tensor:
    """Return the convolution's source; only a stem's may lie in any order."""
    strides = None if form.kind == "stem" and made.maybe() else channels_last(form.shape)
    return given("x", dtype, form.shape, strides)


def program(one: ir.Instruction, inputs: list[ir.Tensor], numbers: Sequence[torch.Tensor]) -> Given:
    """Return it with the numbers that it is given."""
    assert one.dst is not None
    whole = ir.Program(inputs, [one.dst], [one])
    blob = encode(whole, {"producer": "tests"}, plan_arena(whole), None)
    strided = tuple(
        torch.empty_strided(x.shape, x.strides, dtype=data.dtype).copy_(data).view(torch_dtype_of(x.dtype))
        for x, data in zip(inputs, numbers, strict=True)
    )
    wanted = torch.empty_strided(one.dst.shape, one.dst.strides, dtype=torch_dtype_of(one.dst.dtype))
    Interpreter(parse(blob), _nobody).run(strided, [wanted])
    return blob, strided, wanted


def _nobody(*_: object) -> None:
    raise AssertionError("no program here calls the host")


def given(name: str, dtype: Dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> ir.Tensor:
    """Return an input."""
    return ir.Tensor(name, dtype, shape, strides or torch.empty(shape, device="meta").stride(), Space.INPUT)


def result(dtype: Dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> ir.Tensor:
    """Return an output."""
    return ir.Tensor("y", dtype, shape, strides or torch.empty(shape, device="meta").stride(), Space.OUTPUT)


def constant(name: str, data: torch.Tensor) -> ir.Tensor:
    """Return a constant as it lies."""
    return ir.Tensor(name, dtype_of(data.dtype), tuple(data.shape), data.stride(), Space.CONST, data=data)


def channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an image whose channels are innermost."""
    _, channels, high, wide = shape
    return (channels * high * wide, 1, wide * channels, channels)
