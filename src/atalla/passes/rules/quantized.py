"""Quantised tensors: whole numbers that stand for floats, by the arithmetic of ``quantized_decomposed``.

What is dequantised and known keeps its whole numbers (:class:`~atalla.ir.Grid`), so that a product can be one of int8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import equal
from atalla.dtypes import dtype_of
from atalla.errors import UnsupportedError
from atalla.isa import Dtype, Op, Step
from atalla.passes.constraints import Request, refuse
from atalla.passes.lowering import Lowering, constant, constant_data
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast_from

if TYPE_CHECKING:
    import torch

NAMESPACE = "quantized_decomposed"
INT8 = (-128, 127)
EXACT = frozenset({Dtype.I8, Dtype.U8, Dtype.I16})
"""Whole numbers that a float32 holds, whatever their zero point."""


def known_scales(asked: Request) -> bool:
    """Scales and zero points must be known when the program is compiled."""
    given = [asked.arguments.get(name) for name in ("scale", "zero_point", "scales", "zero_points")]
    return all(constant_data(one) is not None for one in given if isinstance(one, ir.Tensor)) and not asked.symbols


def sound_scales(asked: Request) -> bool:
    """Scales must be numbers above 0, and no infinity."""
    return all(math.isfinite(one) and one > 0 for one in _numbers(asked, "scale", "scales"))


def sound_zero_points(asked: Request) -> bool:
    """Zero points must be numbers that the quantised type holds."""
    least, most = _RANGES.get(_held(asked), (0, -1))
    return all(least <= one <= most for one in _numbers(asked, "zero_point", "zero_points"))


def known_types(asked: Request) -> bool:
    """Quantised types must be int8, uint8, int16 or int32, and what they stand for float32."""
    floats = {asked.dtype} | {one.dtype for one in asked.tensors if one.dtype.is_float}
    return _held(asked) in _RANGES and floats - _RANGES.keys() == {Dtype.F32}


def one_axis(asked: Request) -> bool:
    """There must be a scale for each channel of the axis."""
    x, scales = asked["x"], asked["scales"]
    return -len(x.shape) <= asked["axis"] < len(x.shape) and equal(x.shape[asked["axis"]], scales.shape[0])


_RANGES = {Dtype.I8: INT8, Dtype.U8: (0, 255), Dtype.I16: (-32768, 32767), Dtype.I32: (-(1 << 31), (1 << 31) - 1)}
_NEEDS = (known_scales, known_types, sound_scales, sound_zero_points)


def _held(asked: Request) -> Dtype:
    try:
        return dtype_of(asked["dtype"])
    except UnsupportedError:
        refuse(known_types)


def _numbers(asked: Request, *names: str) -> list[float]:
    """Return what arguments of these names hold, numbers or constants."""
    found: list[float] = []
    for name in names:
        value = asked.arguments.get(name)
        data = constant_data(value)
        if data is not None:
            found += data.flatten().tolist() if _is_real(data) else []
        elif value is not None:
            found.append(value)
    return found


def _is_real(data: torch.Tensor) -> bool:
    """Whether elements are known: ExecuTorch shows partitioners programs without any, and compiles the real ones."""
    from torch._subclasses.fake_tensor import FakeTensor

    return not isinstance(data, FakeTensor)


@rule(
    f"{NAMESPACE}.quantize_per_tensor.default", f"{NAMESPACE}.quantize_per_tensor.tensor", makes=(Op.EW,), needs=_NEEDS
)
def quantize(
    low: Lowering, x: ir.Tensor, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: torch.dtype
) -> ir.Tensor:
    """``clamp(round(x / scale) + zero point)``."""
    chain = Chain()
    value = chain.read(x)
    factor, zero = 1.0 / _number(scale), _number(zero_point)
    operands = (value, chain.number(factor, as_float=True), chain.number(zero, as_float=True))
    return chain.emit(low, _quantized(chain, operands, (quant_min, quant_max), dtype))


@rule(f"{NAMESPACE}.quantize_per_channel.default", makes=(Op.EW,), needs=(*_NEEDS, one_axis))
def quantize_channels(
    low: Lowering,
    x: ir.Tensor,
    scales: ir.Tensor,
    zero_points: ir.Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> ir.Tensor:
    """The same with a scale and a zero point for each channel."""
    factors = constant(1.0 / _data(scales), "factors")
    zeros = constant(_zeros(scales, zero_points).float(), "zero_points")
    chain, operands = _along(x, (factors, zeros), axis)
    return chain.emit(low, _quantized(chain, operands, (quant_min, quant_max), dtype), like=[x])


def _quantized(chain: Chain, operands: tuple[int, int, int], bounds: tuple[int, int], dtype: torch.dtype) -> int:
    """Add the steps of a tensor, a factor and a zero point."""
    if dtype_of(dtype) is Dtype.I8 and bounds == INT8:
        return chain.step(Step.QUANTIZE, *operands)
    value, factor, zero = operands
    rounded = chain.step(Step.ROUND, chain.step(Step.MUL, value, factor))
    return chain.bounded(chain.step(Step.ADD, rounded, zero), *map(float, bounds))


@rule(
    f"{NAMESPACE}.dequantize_per_tensor.default", f"{NAMESPACE}.dequantize_per_tensor.tensor", makes=(Op.EW,),
    needs=_NEEDS, folds=True,
)  # fmt: skip
def dequantize(
    low: Lowering,
    x: ir.Tensor,
    scale: Any,
    zero_point: Any,
    quant_min: Any,
    quant_max: Any,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> ir.Tensor:
    """``(x − zero point) · scale``."""
    import torch

    data, step, zero = constant_data(x), _number(scale), _number(zero_point)
    if data is not None:
        grid = ir.Grid(data.contiguous(), torch.tensor([step], dtype=torch.float32), 0) if zero == 0 else None
        return _known(low, (data.float() - zero) * step, grid)
    chain = Chain()
    value = chain.read(x)
    return chain.emit(low, chain.step(
        Step.DEQUANTIZE, value, chain.number(step, as_float=True), chain.number(zero, as_float=True)
    ))  # fmt: skip


@rule(f"{NAMESPACE}.dequantize_per_channel.default", makes=(Op.EW,), needs=(*_NEEDS, one_axis), folds=True)
def dequantize_channels(
    low: Lowering,
    x: ir.Tensor,
    scales: ir.Tensor,
    zero_points: ir.Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> ir.Tensor:
    """The same with a scale and a zero point for each channel."""
    data, zeros = constant_data(x), _zeros(scales, zero_points)
    if data is not None:
        axis %= data.dim()
        form = [-1 if i == axis else 1 for i in range(data.dim())]
        steps, is_plain = _data(scales).float(), _is_real(zeros) and not bool(zeros.any())
        grid = ir.Grid(data.contiguous(), steps, axis) if is_plain else None
        return _known(low, (data.long() - zeros.view(form)) * steps.view(form), grid)
    if x.dtype in EXACT:
        chain, operands = _along(x, (scales, constant(zeros.float(), "zero_points")), axis)
        return chain.emit(low, chain.step(Step.DEQUANTIZE, *operands), like=[x])
    chain, (value, step, zero) = _along(x, (scales, constant(zeros, "zero_points")), axis)
    apart = chain.to(chain.step(Step.SUB, value, zero), as_float=True)
    return chain.emit(low, chain.step(Step.MUL, apart, step), like=[x])


def _known(low: Lowering, made: torch.Tensor, grid: ir.Grid | None) -> ir.Tensor:
    """Return the floats that whole numbers stand for, as a constant that remembers int8 whose zero is 0."""
    import torch

    result = constant(made.contiguous(), low.node.name if low.node is not None else "known")
    if grid is not None and grid.numbers.dtype is torch.int8:
        result.grid = grid
    return result


def _along(x: ir.Tensor, channels: Sequence[ir.Tensor], axis: int) -> tuple[Chain, tuple[int, int, int]]:
    """Return a chain that has read a tensor and two numbers for each channel."""
    chain = Chain()
    value = chain.read(x)
    first, second = (chain.read(broadcast_from(axis % len(x.shape), one, x.shape)) for one in channels)
    return chain, (value, first, second)


def _zeros(scales: ir.Tensor, zero_points: ir.Tensor | None) -> torch.Tensor:
    """Return zero points as int64; none is 0."""
    return (_data(scales) * 0 if zero_points is None else _data(zero_points)).long()


def _data(tensor: ir.Tensor) -> torch.Tensor:
    data = constant_data(tensor)
    assert data is not None, "a constraint of the rule"
    return data


def _number(value: Any) -> float:
    return float(_data(value)) if isinstance(value, ir.Tensor) else float(value)
