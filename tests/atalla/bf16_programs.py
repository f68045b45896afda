"""Programs of one product of bfloat16, made by a seed, and a network whose products are exact in it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from atalla import ir
from atalla.isa import PAIR, Act, Dtype, Layout, Op, Space
from atalla.layouts import pack_deep
from tests.atalla import one_instruction
from tests.atalla.one_instruction import COLUMNS, DEPTHS, ROWS, Given, channels_last, constant, given, image, result


class Made(one_instruction.Made):
    """What a seed chooses, of bfloat16."""

    def floats(self, *shape: int) -> torch.Tensor:
        """Return numbers of all sizes, the smallest and the largest among them where a seed says so."""
        numbers = torch.randn(shape, generator=self.numbers)
        if self.maybe():
            return numbers
        sizes = torch.tensor([0.0, 1e-45, 1e-39, 2.0**-126, -(2.0**-126), 1e-30, 1e-20, 1.0, -3.3895e38, 1e19])
        odd = sizes[torch.randint(len(sizes), shape, generator=self.numbers)]
        return numbers.where(torch.rand(shape, generator=self.numbers) < 0.7, odd)

    def ends(self, columns: int, residual: ir.Tensor) -> tuple[list[ir.Tensor | None], dict[str, Any]]:
        """Return what follows the weight, and the attributes of the activation."""
        bias = constant("bias", self.floats(columns)) if self.maybe() else None
        low, high = self.one((-math.inf, math.inf), (-0.5, 1.5))
        act = self.one(Act.NONE, Act.NONE, Act.RELU, Act.CLAMP)
        return [bias, residual if self.maybe() else None], {"act": act, "low": low, "high": high}

    def program(self, one: ir.Instruction) -> Given:
        """Return it with numbers."""
        inputs = [one for one in one.reads if one.space is Space.INPUT]
        return one_instruction.program(one, inputs, [self.floats(*x.shape) for x in inputs])


def product(seed: int) -> Given:
    """Return a BGEMM of any number of rows, depth and columns."""
    made = Made(seed)
    depth, rows, columns = made.one(*DEPTHS), made.one(*ROWS), made.one(*COLUMNS)
    src, dst = given("x", Dtype.F32, (*rows, depth)), result(Dtype.F32, (*rows, columns))
    ends, attributes = made.ends(columns, given("z", Dtype.F32, dst.shape))  # type: ignore[arg-type]  # whole
    weight = _pairs(made.floats(columns, 1, depth), 1)
    return made.program(ir.Instruction(Op.BGEMM, dst, (src, weight, *ends), attributes))


def convolution(seed: int) -> Given:
    """Return a BCONV2D of any form."""
    made = Made(seed)
    form = one_instruction.window(made, "plain", "plain", "stem", "grouped")
    src, dst = image(made, form, Dtype.F32), result(Dtype.F32, form.out, channels_last(form.out))
    residual = given("z", Dtype.F32, form.out, channels_last(form.out))
    ends, attributes = made.ends(form.out[1], residual)
    weight = _pairs(made.floats(form.out[1], form.taps, form.depth), form.attributes["groups"])
    return made.program(ir.Instruction(Op.BCONV2D, dst, (src, weight, *ends), {**form.attributes, **attributes}))


MAKERS = (product, convolution)


def _pairs(weight: torch.Tensor, groups: int) -> ir.Tensor:
    data = pack_deep(weight.bfloat16(), groups, PAIR).flatten()
    return ir.Tensor("weight", Dtype.BF16, tuple(weight.shape), (0, 0, 0), Space.CONST, layout=Layout.PAIRS, data=data)


class _WholeNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Linear(37, 20)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.first(x).relu(), self.last(y) + 1.5


def whole_numbers() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return a network of small whole numbers, and inputs."""
    numbers = torch.Generator().manual_seed(0)

    def whole(*shape: int) -> torch.Tensor:
        return torch.randint(-8, 9, shape, generator=numbers).float()

    module = _WholeNumbers().eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(whole(*weight.shape))
    return module, (whole(1, 3, 9, 9), whole(2, 5, 37))
