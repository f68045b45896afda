"""Programs of one instruction on int8, made by a seed: products of every form, chains, tables, pools, sums."""

from __future__ import annotations

import math
from typing import Any

import torch

from atalla import ir
from atalla.isa import QUAD, Dtype, Layout, Op, Pool, Reduce, Space, Step, bits_of_float32
from atalla.layouts import pack_deep
from tests.atalla import one_instruction
from tests.atalla.one_instruction import COLUMNS, DEPTHS, ROWS, Given, channels_last, constant, given, image, result


class Made(one_instruction.Made):
    """What a seed chooses, of int8."""

    def int8(self, *shape: int) -> torch.Tensor:
        return torch.randint(-128, 128, shape, generator=self.numbers).to(torch.int8)

    def ends(self, sums: torch.Tensor, depth: int, dtype: Dtype) -> tuple[list[ir.Tensor], dict[str, Any]]:
        """Return what follows the weight, and the attributes of what is made of sums."""
        count = len(sums)
        width = 0.5 / math.sqrt(depth) / 100 if dtype is Dtype.I8 else 0.01
        scale = (torch.rand(count, generator=self.numbers) + 0.5) * width
        offset = torch.randn(count, generator=self.numbers) * 10
        least, most = (-128.0, 127.0) if dtype is Dtype.I8 else (-math.inf, math.inf)
        low, high = self.one((least, most), (least, most), (-3.0, most), (least, 20.5 if dtype is Dtype.F32 else 20.0))
        zero = self.one(0, -128, 127, self.choice.randint(-128, 127))
        constants = [constant("sums", sums.int()), constant("scale", scale), constant("offset", offset)]
        return constants, {"zero": zero, "low": low, "high": high}


def product(seed: int) -> Given:
    """Return a QGEMM of any number of rows, depth and columns."""
    made = Made(seed)
    depth, rows = made.one(*DEPTHS), made.one(*ROWS)
    weight = made.int8(made.one(*COLUMNS), 1, depth)
    dtype = made.one(Dtype.I8, Dtype.I8, Dtype.F32)
    ends, attributes = made.ends(weight.long().sum((1, 2)), depth, dtype)
    src = given("x", Dtype.I8, (*rows, depth))
    dst = result(dtype, (*rows, len(weight)))
    return _program(ir.Instruction(Op.QGEMM, dst, (src, _quads(weight, 1), *ends), attributes), [src], made)


def convolution(seed: int) -> Given:
    """Return a QCONV2D or QDWCONV2D of any form."""
    made = Made(seed)
    form = one_instruction.window(made, "plain", "plain", "stem", "grouped", "depthwise")
    weight = made.int8(form.out[1], form.taps, form.depth)
    dtype = made.one(Dtype.I8, Dtype.I8, Dtype.F32)
    ends, attributes = made.ends(weight.long().sum((1, 2)), form.taps * form.depth, dtype)
    src, dst = image(made, form, Dtype.I8), result(dtype, form.out, channels_last(form.out))
    is_depthwise = form.kind == "depthwise"
    packed = _filters(weight[:, :, 0]) if is_depthwise else _quads(weight, form.attributes["groups"])
    op = Op.QDWCONV2D if is_depthwise else Op.QCONV2D
    return _program(ir.Instruction(op, dst, (src, packed, *ends), {**form.attributes, **attributes}), [src], made)


def chain(seed: int) -> Given:
    """Return an EW that dequantises one or two tensors, and may quantise the result."""
    made = Made(seed)
    shape = made.one((7,), (3, 40, 9, 9), (2, 24, 5, 5), (1, 64, 28, 28), (130,), (2, 3))
    strides = channels_last(shape) if len(shape) == 4 and made.maybe() else None
    is_repeated = len(shape) == 4 and made.maybe()
    inputs = [given("a", Dtype.I8, shape, strides)]
    if made.maybe():
        inputs.append(
            given("b", Dtype.I8, (*shape[:2], 1, 1) if is_repeated else shape, None if is_repeated else strides)
        )
    sources = [one if one.shape == shape else one.view(shape, (*one.strides[:2], 0, 0)) for one in inputs]
    dtype = made.one(Dtype.I8, Dtype.I8, Dtype.F32)
    dst = result(dtype, shape, strides)
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
    return _program(ir.Instruction(Op.EW, dst, tuple(sources), {"steps": tuple(steps)}), inputs, made)


def table(seed: int) -> Given:
    """Return a GATHER from a table of 256 numbers by bytes."""
    made = Made(seed)
    shape = made.one((5,), (1, 3, 100), (64,), (3, 65), (1000,))
    src, dst = given("x", Dtype.U8, shape), result(Dtype.I8, shape)
    return _program(ir.Instruction(Op.GATHER, dst, (constant("table", made.int8(256)), src)), [src], made)


def pool(seed: int) -> Given:
    """Return a POOL2D of int8."""
    made = Made(seed)
    shape = (made.one(1, 2), made.one(1, 8, 24, 33, 64), made.choice.randint(5, 12), made.choice.randint(5, 12))
    pad = made.one(0, 1)
    out = (*shape[:2], *((n + 2 * pad - 3) // 2 + 1 for n in shape[2:]))
    src, dst = given("x", Dtype.I8, shape, channels_last(shape)), result(Dtype.I8, out, channels_last(out))
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
    return _program(ir.Instruction(Op.POOL2D, dst, (src,), attributes), [src], made)


def total(seed: int) -> Given:
    """Return a REDUCE by SUM along any dims."""
    made = Made(seed)
    shape = made.one((7,), (300, 130), (2, 24, 5, 5), (1, 64, 7, 7), (3, 70, 9, 4), (2, 3, 200), (70_000,))
    strides = channels_last(shape) if len(shape) == 4 and made.maybe() else None
    dims = made.choice.randint(1, (1 << len(shape)) - 1) if made.maybe() or len(shape) != 4 else 0b1100
    kept = tuple(1 if dims >> i & 1 else extent for i, extent in enumerate(shape))
    src, dst = given("x", Dtype.I8, shape, strides), result(Dtype.I64, kept)
    attributes = {"kind": Reduce.SUM, "dims": dims, "correction": 0.0}
    return _program(ir.Instruction(Op.REDUCE, dst, (src,), attributes), [src], made)


MAKERS = (product, convolution, chain, table, pool, total)


def _program(one: ir.Instruction, inputs: list[ir.Tensor], made: Made) -> Given:
    return one_instruction.program(one, inputs, [made.int8(*x.shape) for x in inputs])


def _quads(weight: torch.Tensor, groups: int) -> ir.Tensor:
    data = pack_deep(weight, groups, QUAD).flatten()
    return ir.Tensor("weight", Dtype.I8, tuple(weight.shape), (0, 0, 0), Space.CONST, layout=Layout.QUADS, data=data)


def _filters(weight: torch.Tensor) -> ir.Tensor:
    data = weight.t().contiguous().flatten()
    shape = tuple(weight.shape)
    return ir.Tensor("weight", Dtype.I8, shape, (0, 0), Space.CONST, layout=Layout.DEPTHWISE, data=data)
