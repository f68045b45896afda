"""Activations: bounds, and what networks have between their layers."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.isa import Step
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.arithmetic import EW, NEEDS
from atalla.passes.rules.chain import Chain, elementwise, plain


@rule("clamp.default", makes=EW, needs=NEEDS)
def clamp(low: Lowering, x: ir.Tensor, min: Any = None, max: Any = None) -> ir.Tensor:  # noqa: A002  the schema's
    """``min(max(x, least), most)``."""
    return elementwise(low, [x], lambda chain, a: chain.bounded(a, min, max))


@rule("clamp_min.default", makes=EW, needs=NEEDS)
def clamp_min(low: Lowering, x: ir.Tensor, least: float) -> ir.Tensor:
    """``max(x, least)``."""
    return elementwise(low, [x], lambda chain, a: chain.bounded(a, least, None))


@rule("clamp_max.default", makes=EW, needs=NEEDS)
def clamp_max(low: Lowering, x: ir.Tensor, most: float) -> ir.Tensor:
    """``min(x, most)``."""
    return elementwise(low, [x], lambda chain, a: chain.bounded(a, None, most))


@rule("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor", makes=EW, needs=NEEDS)
def clamp_tensor(low: Lowering, x: ir.Tensor, min: Any = None, max: Any = None) -> ir.Tensor:  # noqa: A002
    """``min(max(x, least), most)`` of tensors."""
    assert low.node is not None, "a rule has its node"
    if str(low.node.target) == "aten.clamp_max.Tensor":
        min, max = None, min  # noqa: A001  it has but one bound
    bounds = [(one, step) for one, step in ((min, Step.MAX), (max, Step.MIN)) if one is not None]

    def build(chain: Chain, value: int, *others: int) -> int:
        for other, (_, step) in zip(others, bounds, strict=True):
            value = chain.step(step, value, other)
        return value

    return elementwise(low, [x, *(one for one, _ in bounds)], build)


@rule("hardtanh.default", makes=EW, needs=NEEDS)
def hardtanh(low: Lowering, x: ir.Tensor, least: float = -1, most: float = 1) -> ir.Tensor:
    """``min(max(x, least), most)``."""
    return elementwise(low, [x], lambda chain, a: chain.bounded(a, least, most))


@rule("relu6.default", makes=EW, needs=NEEDS)
def relu6(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """``min(max(x, 0), 6)``."""
    return elementwise(low, [x], lambda chain, a: chain.bounded(a, 0, 6))


@rule("leaky_relu.default", makes=EW, needs=NEEDS)
def leaky_relu(low: Lowering, x: ir.Tensor, slope: float = 0.01) -> ir.Tensor:
    """``x > 0 ? x : slope · x``."""

    def build(chain: Chain, a: int) -> int:
        positive = chain.step(Step.GT, a, chain.number(0, as_float=True))
        return chain.step(Step.WHERE, positive, a, chain.step(Step.MUL, a, chain.number(slope, as_float=True)))

    return elementwise(low, [x], build, compute=True)


@rule("elu.default", makes=EW, needs=NEEDS)
def elu(low: Lowering, x: ir.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> ir.Tensor:
    """``scale · (x > 0 ? x : alpha · (exp(input_scale · x) − 1))``."""

    def build(chain: Chain, a: int) -> int:
        positive = chain.step(Step.GT, a, chain.number(0, as_float=True))
        negative = chain.scaled(chain.step(Step.EXPM1, chain.scaled(a, input_scale)), alpha)
        return chain.scaled(chain.step(Step.WHERE, positive, a, negative), scale)

    return elementwise(low, [x], build, compute=True)


@rule("gelu.default", makes=EW, needs=NEEDS)
def gelu(low: Lowering, x: ir.Tensor, approximate: str = "none") -> ir.Tensor:
    """``x · Φ(x)``; Φ by the error function, or by tanh."""
    return elementwise(low, [x], plain(Step.GELU if approximate == "none" else Step.GELU_TANH), compute=True)


@rule("softplus.default", makes=EW, needs=NEEDS)
def softplus(low: Lowering, x: ir.Tensor, beta: float = 1, threshold: float = 20) -> ir.Tensor:
    """``log(1 + exp(beta · x)) / beta``; x itself where beta · x is above the threshold."""

    def build(chain: Chain, a: int) -> int:
        scaled = chain.scaled(a, beta)
        large = chain.step(Step.GT, scaled, chain.number(threshold, as_float=True))
        soft = chain.step(Step.LOG1P, chain.step(Step.EXP, scaled))
        return chain.step(Step.WHERE, large, a, chain.step(Step.DIV, soft, chain.number(beta, as_float=True)))

    return elementwise(low, [x], build, compute=True)


@rule("mish.default", makes=EW, needs=NEEDS)
def mish(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """``x · tanh(log(1 + exp(x)))``."""

    def build(chain: Chain, a: int) -> int:
        large = chain.step(Step.GT, a, chain.number(20, as_float=True))
        soft = chain.step(Step.WHERE, large, a, chain.step(Step.LOG1P, chain.step(Step.EXP, a)))
        return chain.step(Step.MUL, a, chain.step(Step.TANH, soft))

    return elementwise(low, [x], build, compute=True)
