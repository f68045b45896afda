"""Programs of one product of float32, made by a seed: every form, slice of the depth, and activation."""

from __future__ import annotations

import math
from typing import Any

import torch

from atalla import ir
from atalla.isa import WINOGRAD_TILES, Act, Dtype, Layout, Op, Space
from atalla.layouts import pack_panels, winograd_weights
from tests.atalla import one_instruction
from tests.atalla.one_instruction import COLUMNS, ROWS, Given, channels_last, constant, given, image, result

DEPTHS = (1, 3, 16, 33, 64, 129, 319, 320, 321, 500, 640, 641, 1000)


class Made(one_instruction.Made):
    """What a seed chooses, of float32."""

    def floats(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.numbers)

    def ends(self, columns: int, residual: ir.Tensor) -> tuple[list[ir.Tensor | None], dict[str, Any]]:
        """Return what follows the weight, and the attributes of the activation."""
        bias = constant("bias", self.floats(columns)) if self.maybe() else None
        act = self.one(*Act)
        low, high = (-0.5, 1.5) if act is Act.CLAMP else (-math.inf, math.inf)
        return [bias, residual if self.maybe() else None], {"act": act, "low": low, "high": high}

    def program(self, one: ir.Instruction) -> Given:
        """Return it with numbers."""
        inputs = [one for one in one.reads if one.space is Space.INPUT]
        return one_instruction.program(one, inputs, [self.floats(*x.shape) for x in inputs])

    def gaps(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the strides of rows that do not follow each other evenly, or none."""
        if len(shape) < 2 or self.maybe():
            return None
        found, step = [1], shape[-1] + self.one(0, 5)
        for extent in reversed(shape[:-1]):
            found.insert(0, step)
            step *= extent
            step += self.one(0, 7)
        return tuple(found)


def product(seed: int) -> Given:
    """Return a GEMM of any number of rows, depth and columns."""
    made = Made(seed)
    depth, rows, columns = made.one(*DEPTHS), made.one(*ROWS, (2, 3, 1, 7), (1, 1)), made.one(*COLUMNS)
    shape, out = (*rows, depth), (*rows, columns)
    src, dst = given("x", Dtype.F32, shape, made.gaps(shape)), result(Dtype.F32, out, made.gaps(out))
    ends, attributes = made.ends(columns, given("z", Dtype.F32, out, made.gaps(out)))
    weight = _panels(made.floats(columns, 1, depth), 1)
    return made.program(ir.Instruction(Op.GEMM, dst, (src, weight, *ends), attributes))


def convolution(seed: int) -> Given:
    """Return a CONV2D of any form."""
    made = Made(seed)
    form = one_instruction.window(made, "plain", "plain", "stem", "grouped")
    src, dst = image(made, form, Dtype.F32), result(Dtype.F32, form.out, channels_last(form.out))
    ends, attributes = made.ends(form.out[1], given("z", Dtype.F32, form.out, channels_last(form.out)))
    weight = _panels(made.floats(form.out[1], form.taps, form.depth), form.attributes["groups"])
    return made.program(ir.Instruction(Op.CONV2D, dst, (src, weight, *ends), {**form.attributes, **attributes}))


def deep_convolution(seed: int) -> Given:
    """Return a CONV2D whose taps are more than a slice each."""
    made = Made(seed)
    channels, columns, high, wide = made.one(330, 641), made.one(5, 33), made.one(1, 4, 7), made.one(1, 6)
    kernel = made.one(1, 3)
    shape, out = (made.one(1, 2), channels, high, wide), (0, columns, high, wide)
    out = (shape[0], *out[1:])
    src, dst = given("x", Dtype.F32, shape, channels_last(shape)), result(Dtype.F32, out, channels_last(out))
    ends, attributes = made.ends(columns, given("z", Dtype.F32, out, channels_last(out)))
    weight = _panels(made.floats(columns, kernel * kernel, channels), 1)
    window = _window(kernel, kernel // 2)
    return made.program(ir.Instruction(Op.CONV2D, dst, (src, weight, *ends), {**window, **attributes}))


def winograd(seed: int) -> Given:
    """Return a CONV2D_WINO."""
    made = Made(seed)
    channels, columns = made.one(1, 8, 33, 64, 321), made.one(1, 16, 33, 40, 64)
    pad = made.one(0, 1, 1)
    places = made.one(*WINOGRAD_TILES)
    _, stride = WINOGRAD_TILES[places]
    shape = (made.one(1, 2), channels, made.choice.randint(3, 15), made.choice.randint(3, 15))
    out = (shape[0], columns, *((n + 2 * pad - 3) // stride + 1 for n in shape[2:]))
    src, dst = given("x", Dtype.F32, shape, channels_last(shape)), result(Dtype.F32, out, channels_last(out))
    ends, attributes = made.ends(columns, given("z", Dtype.F32, out, channels_last(out)))
    spread = winograd_weights(made.floats(columns, channels, 3, 3), places)
    parts = [pack_panels(spread[:, place : place + 1], 1).flatten() for place in range(places)]
    weight = ir.Tensor(
        "weight", Dtype.F32, tuple(spread.shape), (0, 0, 0), Space.CONST, layout=Layout.WINOGRAD, data=torch.cat(parts)
    )
    window = {**_window(3, pad), "stride_h": stride, "stride_w": stride}
    return made.program(ir.Instruction(Op.CONV2D_WINO, dst, (src, weight, *ends), {**window, **attributes}))


MAKERS = (product, convolution, deep_convolution, winograd)


def _window(kernel: int, pad: int) -> dict[str, int]:
    ones = dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w", "groups"), 1)
    return {**ones, **dict.fromkeys(("top", "left", "bottom", "right"), pad), "kernel_h": kernel, "kernel_w": kernel}


def _panels(weight: torch.Tensor, groups: int) -> ir.Tensor:
    data = pack_panels(weight, groups).flatten()
    shape = tuple(weight.shape)
    return ir.Tensor("weight", Dtype.F32, shape, (0, 0, 0), Space.CONST, layout=Layout.PANELS, data=data)
