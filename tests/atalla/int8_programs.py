"""Programs of one instruction on int8, made by a seed: products of every form, chains of two tensors, tables, pools."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import torch

from atalla import ir
from atalla.blob.arena import plan_arena
from atalla.blob.reader import parse
from atalla.blob.writer import encode
from atalla.isa import Dtype, Layout, Op, Pool, Space, Step
from atalla.layouts import pack_quads
from atalla.passes.rules.chain import bits_of_float32
from atalla.run.interpreter import Interpreter

Given = tuple[bytes, tuple[torch.Tensor, ...], torch.Tensor]
"""A blob, its inputs, and what the reference makes of them."""


class Made:
    """What a seed chooses."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)

    def int8(self, *shape: int) -> torch.Tensor:
        return torch.randint(-128, 128, shape, generator=self.numbers).to(torch.int8)

    def one(self, *values: Any) -> Any:
        return self.choice.choice(values)

    def maybe(self) -> bool:
        return self.choice.random() < 0.5

    def ends(self, sums: torch.Tensor, depth: int, dtype: Dtype) -> tuple[list[ir.Tensor], dict[str, Any]]:
        """Return what follows the weight, and the attributes of what is made of sums."""
        count = len(sums)
        width = 0.5 / math.sqrt(depth) / 100 if dtype is Dtype.I8 else 0.01
        scale = (torch.rand(count, generator=self.numbers) + 0.5) * width
        offset = torch.randn(count, generator=self.numbers) * 10
        least, most = (-128.0, 127.0) if dtype is Dtype.I8 else (-math.inf, math.inf)
        low, high = self.one((least, most), (least, most), (-3.0, most), (least, 20.5 if dtype is Dtype.F32 else 20.0))
        zero = self.one(0, -128, 127, self.choice.randint(-128, 127))
        constants = [_constant("sums", sums.int()), _constant("scale", scale), _constant("offset", offset)]
        return constants, {"zero": zero, "low": low, "high": high}


def product(seed: int) -> Given:
    """Return a QGEMM of any number of rows, depth and columns."""
    made = Made(seed)
    depth = made.one(1, 3, 4, 16, 63, 64, 65, 129, 256, 300)
    rows = made.one((1,), (2,), (5,), (12,), (13,), (16,), (17,), (33,), (2, 25), (300,))
    weight = made.int8(made.one(1, 5, 16, 17, 32, 40, 100), 1, depth)
    dtype = made.one(Dtype.I8, Dtype.I8, Dtype.F32)
    ends, attributes = made.ends(weight.long().sum((1, 2)), depth, dtype)
    src = _given("x", Dtype.I8, (*rows, depth))
    dst = _result(dtype, (*rows, len(weight)))
    return _program(dst, ir.Instruction(Op.QGEMM, dst, (src, _quads(weight, 1), *ends), attributes), [src], made)


def convolution(seed: int) -> Given:
    """Return a QCONV2D or QDWCONV2D of any form."""
    made = Made(seed)
    kind = made.one("plain", "plain", "stem", "grouped", "depthwise")
    high, wide = kernel = made.one((1, 1), (1, 1), (3, 3), (3, 5), (5, 5), (7, 7), (2, 1))
    stride, dilation = (made.one(1, 1, 2), made.one(1, 1, 2, 3)), (made.one(1, 1, 2), made.one(1, 1, 2))
    groups, each = {
        "plain": (1, made.one(5, 8, 16, 24, 40, 64, 65, 128)), "stem": (1, made.one(1, 2, 3, 4)),
        "grouped": (made.one(2, 3), made.one(1, 4, 17, 32)), "depthwise": (made.one(1, 5, 8, 16, 24, 40, 33, 100), 1),
    }[kind]  # fmt: skip
    channels, is_depthwise = groups * each, kind == "depthwise"
    columns = channels if is_depthwise else groups * made.one(1, 7, 16, 24, 33)
    top, left, bottom, right = made.one(0, 1, high // 2), made.one(0, 1, wide // 2), made.one(0, 1), made.one(0, 1)
    size = [(k - 1) * d + 1 + made.choice.randint(0, 20) for k, d in zip(kernel, dilation, strict=True)]
    out = [
        (n + pads - (k - 1) * d - 1) // s + 1
        for n, pads, k, d, s in zip(size, (top + bottom, left + right), kernel, dilation, stride, strict=True)
    ]
    batch = made.one(1, 2)
    weight = made.int8(columns, high * wide, each)
    dtype = made.one(Dtype.I8, Dtype.I8, Dtype.F32)
    ends, attributes = made.ends(weight.long().sum((1, 2)), high * wide * each, dtype)
    shape = (batch, channels, *size)
    src = _given("x", Dtype.I8, shape, None if kind == "stem" and made.maybe() else _channels_last(shape))
    made_shape = (batch, columns, *out)
    dst = _result(dtype, made_shape, _channels_last(made_shape))
    attributes |= {
        "stride_h": stride[0], "stride_w": stride[1], "top": top, "left": left, "bottom": bottom, "right": right,
        "dilation_h": dilation[0], "dilation_w": dilation[1], "kernel_h": high, "kernel_w": wide, "groups": groups,
    }  # fmt: skip
    packed = _filters(weight[:, :, 0]) if is_depthwise else _quads(weight, groups)
    op = Op.QDWCONV2D if is_depthwise else Op.QCONV2D
    return _program(dst, ir.Instruction(op, dst, (src, packed, *ends), attributes), [src], made)


def chain(seed: int) -> Given:
    """Return an EW that dequantises one or two tensors, and may quantise the result."""
    made = Made(seed)
    shape = made.one((7,), (3, 40, 9, 9), (2, 24, 5, 5), (1, 64, 28, 28), (130,), (2, 3))
    strides = _channels_last(shape) if len(shape) == 4 and made.maybe() else None
    is_repeated = len(shape) == 4 and made.maybe()
    inputs = [_given("a", Dtype.I8, shape, strides)]
    if made.maybe():
        inputs.append(
            _given("b", Dtype.I8, (*shape[:2], 1, 1) if is_repeated else shape, None if is_repeated else strides)
        )
    sources = [one if one.shape == shape else one.view(shape, (*one.strides[:2], 0, 0)) for one in inputs]
    dtype = made.one(Dtype.I8, Dtype.I8, Dtype.F32)
    dst = _result(dtype, shape, strides)
    steps: list[tuple[int, int, int, int]] = []

    def step(code: Step, a: int, b: int = 0, c: int = 0) -> int:
        steps.append((int(code), a, b, c))
        return len(sources) + len(steps) - 1

    def number(value: float) -> int:
        return step(Step.FLOAT, bits_of_float32(value))

    def scales() -> tuple[int, int]:
        return number(0.02 + made.choice.random()), number(float(made.choice.randint(-128, 127)))

    values = [step(Step.DEQUANTIZE, place, *scales()) for place in range(len(sources))]
    value = step(made.one(Step.ADD, Step.MUL), *values) if len(values) == 2 else values[0]
    value = step(Step.RELU, value) if made.maybe() else value
    if dtype is Dtype.I8:
        step(Step.QUANTIZE, value, *scales())
    return _program(dst, ir.Instruction(Op.EW, dst, tuple(sources), {"steps": tuple(steps)}), inputs, made)


def table(seed: int) -> Given:
    """Return a GATHER from a table of 256 numbers by bytes."""
    made = Made(seed)
    shape = made.one((5,), (1, 3, 100), (64,), (3, 65), (1000,))
    src, dst = _given("x", Dtype.U8, shape), _result(Dtype.I8, shape)
    return _program(dst, ir.Instruction(Op.GATHER, dst, (_constant("table", made.int8(256)), src)), [src], made)


def pool(seed: int) -> Given:
    """Return a POOL2D of int8."""
    made = Made(seed)
    shape = (made.one(1, 2), made.one(1, 8, 24, 33, 64), made.choice.randint(5, 12), made.choice.randint(5, 12))
    pad = made.one(0, 1)
    out = (*shape[:2], *((n + 2 * pad - 3) // 2 + 1 for n in shape[2:]))
    src, dst = _given("x", Dtype.I8, shape, _channels_last(shape)), _result(Dtype.I8, out, _channels_last(out))
    attributes = {
        "kind": Pool.MAX,
        "stride_h": 2,
        "stride_w": 2,
        "dilation_h": 1,
        "dilation_w": 1,
        "top": pad,
        "left": pad,
        "bottom": pad,
        "right": pad,
        "kernel_h": 3,
        "kernel_w": 3,
    }
    return _program(dst, ir.Instruction(Op.POOL2D, dst, (src,), attributes), [src], made)


MAKERS = (product, convolution, chain, table, pool)


def _program(dst: ir.Tensor, one: ir.Instruction, inputs: list[ir.Tensor], made: Made) -> Given:
    program = ir.Program(inputs, [dst], [one])
    meta: Mapping[str, Any] = {"producer": "tests"}
    blob = encode(program, meta, plan_arena(program), None)
    given = tuple(
        torch.empty_strided(x.shape, x.strides, dtype=torch.int8).copy_(made.int8(*x.shape)).view(_torch(x.dtype))
        for x in inputs
    )
    wanted = torch.empty_strided(dst.shape, dst.strides, dtype=_torch(dst.dtype))
    Interpreter(parse(blob), _nobody).run(given, [wanted])
    return blob, given, wanted


def _nobody(*_: object) -> None:
    raise AssertionError("no program here calls the host")


def _torch(dtype: Dtype) -> torch.dtype:
    return {Dtype.I8: torch.int8, Dtype.U8: torch.uint8, Dtype.F32: torch.float32}[dtype]


def _given(name: str, dtype: Dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> ir.Tensor:
    return ir.Tensor(name, dtype, shape, strides or torch.empty(shape, device="meta").stride(), Space.INPUT)


def _result(dtype: Dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> ir.Tensor:
    return ir.Tensor("y", dtype, shape, strides or torch.empty(shape, device="meta").stride(), Space.OUTPUT)


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    _, channels, high, wide = shape
    return (channels * high * wide, 1, wide * channels, channels)


def _constant(name: str, data: torch.Tensor) -> ir.Tensor:
    dtypes = {torch.int8: Dtype.I8, torch.int32: Dtype.I32, torch.float32: Dtype.F32}
    return ir.Tensor(name, dtypes[data.dtype], tuple(data.shape), data.stride(), Space.CONST, data=data)


def _quads(weight: torch.Tensor, groups: int) -> ir.Tensor:
    data = pack_quads(weight, groups).flatten()
    return ir.Tensor("weight", Dtype.I8, tuple(weight.shape), (0, 0, 0), Space.CONST, layout=Layout.QUADS, data=data)


def _filters(weight: torch.Tensor) -> ir.Tensor:
    data = weight.t().contiguous().flatten()
    shape = tuple(weight.shape)
    return ir.Tensor("weight", Dtype.I8, shape, (0, 0), Space.CONST, layout=Layout.DEPTHWISE, data=data)
