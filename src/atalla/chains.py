"""Chains: what the steps of an EW make, in torch; the definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from atalla.errors import KernelError
from atalla.isa import STEPS, Step
from atalla.library import ZERO_DIVISOR

if TYPE_CHECKING:
    import torch

    from atalla.ir import Steps


def made_by(steps: Steps, sources: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the last value of a chain, float32 or int64.

    Raises:
        KernelError: a whole number is divided by zero.
    """
    values = [one.float() if one.dtype.is_floating_point else one.long() for one in sources]
    for code, *operands in steps:
        values.append(_step(Step(code), operands, values))
    return values[-1]


def _step(code: Step, operands: Sequence[int], values: Sequence[torch.Tensor]) -> torch.Tensor:
    import torch

    if code is Step.FLOAT:
        return torch.tensor(operands[0], dtype=torch.int32).view(torch.float32)
    if code is Step.INT:
        return torch.tensor(operands[0], dtype=torch.int64)
    divisor = values[operands[1]] if code in {Step.FLOOR_DIV, Step.REMAINDER} else None
    if divisor is not None and not divisor.is_floating_point() and not bool(divisor.all()):
        raise KernelError(ZERO_DIVISOR, "a whole number is divided by zero")
    return _steps()[code](*(values[place] for place in operands[: len(STEPS[code].operands)]))


def _steps() -> dict[Step, Callable[..., torch.Tensor]]:
    """Return the function of each step."""
    import torch
    from torch.nn import functional

    return {
        Step.TO_FLOAT: lambda a: a.float(), Step.TO_INT: lambda a: a.trunc().long(), Step.NEG: torch.neg,
        Step.ABS: torch.abs, Step.SQRT: torch.sqrt, Step.RSQRT: torch.rsqrt, Step.RECIPROCAL: torch.reciprocal,
        Step.EXP: torch.exp, Step.LOG: torch.log,
        Step.LOG2: torch.log2, Step.LOG10: torch.log10, Step.TANH: torch.tanh, Step.ERF: torch.erf, Step.SIN: torch.sin,
        Step.COS: torch.cos, Step.SIGMOID: torch.sigmoid, Step.FLOOR: torch.floor, Step.CEIL: torch.ceil,
        Step.ROUND: torch.round, Step.TRUNC: torch.trunc, Step.RELU: torch.relu, Step.HARDSWISH: functional.hardswish,
        Step.HARDSIGMOID: functional.hardsigmoid, Step.SILU: functional.silu, Step.GELU: functional.gelu,
        Step.GELU_TANH: lambda a: functional.gelu(a, approximate="tanh"), Step.NOT: lambda a: (a == 0).long(),
        Step.LOG1P: torch.log1p, Step.EXPM1: torch.expm1, Step.SIGN: torch.sign,
        Step.IS_NAN: lambda a: torch.isnan(a).long(), Step.BIT_NOT: torch.bitwise_not,
        Step.ADD: torch.add, Step.SUB: torch.sub, Step.MUL: torch.mul, Step.DIV: torch.div, Step.MIN: torch.minimum,
        Step.MAX: torch.maximum, Step.POW: torch.pow, Step.EQ: lambda a, b: (a == b).long(),
        Step.NE: lambda a, b: (a != b).long(), Step.LT: lambda a, b: (a < b).long(),
        Step.LE: lambda a, b: (a <= b).long(), Step.GT: lambda a, b: (a > b).long(),
        Step.GE: lambda a, b: (a >= b).long(), Step.AND: torch.bitwise_and, Step.OR: torch.bitwise_or,
        Step.XOR: torch.bitwise_xor, Step.FLOOR_DIV: torch.floor_divide, Step.REMAINDER: torch.remainder,
        Step.WHERE: lambda a, b, c: torch.where(a != 0, b, c), Step.DEQUANTIZE: lambda a, b, c: (a.float() - c) * b,
        Step.QUANTIZE: lambda a, b, c: ((a * b).round() + c).clamp(-128, 127).long(),
    }  # fmt: skip
