"""Chain: an EW instruction while it is made; broadcasting is a view with strides of zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from atalla import ir
from atalla.dims import equal
from atalla.isa import STEPS, Op, Step, bits_of_float32
from atalla.passes.constraints import COMPUTED
from atalla.passes.lowering import Lowering


@dataclass
class Chain:
    """An EW instruction while it is made: its sources, and its steps as ``code, a, b, c``."""

    sources: list[ir.Tensor] = field(default_factory=list)
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)
    is_float: list[bool] = field(default_factory=list)
    """Of each value: whether it is a float32, else an int64."""

    def read(self, tensor: ir.Tensor) -> int:
        """Add a source; all of them come before the first step."""
        assert not self.steps, "sources come first"
        assert tensor.dtype in COMPUTED, "a constraint of the rule"
        self.sources.append(tensor)
        self.is_float.append(tensor.dtype.is_float)
        return len(self.is_float) - 1

    def step(self, code: Step, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Add a step; return the number of its value."""
        self.steps.append((int(code), a, b, c))
        spec = STEPS[code]
        self.is_float.append(spec.is_float([self.is_float[one] for one in (a, b, c)[: len(spec.operands)]]))
        return len(self.is_float) - 1

    def number(self, value: bool | float, *, as_float: bool) -> int:
        """Add a constant; a whole number of more than 32 bits is made of two."""
        if as_float:
            return self.step(Step.FLOAT, bits_of_float32(float(value)))
        whole = int(value)
        if -(1 << 31) <= whole < 1 << 31:
            return self.step(Step.INT, whole)
        low = (whole + (1 << 31)) % (1 << 32) - (1 << 31)
        factor = self.step(Step.INT, 1 << 16)
        high = self.step(Step.MUL, self.step(Step.INT, (whole - low) >> 32), factor)
        return self.step(Step.ADD, self.step(Step.MUL, high, factor), self.step(Step.INT, low))

    def to(self, value: int, *, as_float: bool) -> int:
        """Convert where it is the other kind."""
        if self.is_float[value] == as_float:
            return value
        return self.step(Step.TO_FLOAT if as_float else Step.TO_INT, value)

    def truth(self, value: int) -> int:
        """Return 1 where a value is not zero, NaN among them, else 0."""
        return self.step(Step.NE, value, self.number(0, as_float=self.is_float[value]))

    def scaled(self, value: int, factor: float) -> int:
        """Multiply by a constant."""
        return value if factor == 1 else self.step(Step.MUL, value, self.number(factor, as_float=self.is_float[value]))

    def bounded(self, value: int, low: float | None, high: float | None) -> int:
        """Bring a value between two bounds; NaN stays NaN."""
        as_float = self.is_float[value]
        if low is not None:
            value = self.step(Step.MAX, value, self.number(low, as_float=as_float))
        if high is not None:
            value = self.step(Step.MIN, value, self.number(high, as_float=as_float))
        return value

    def emit(self, low: Lowering, result: int, *, like: Sequence[ir.Tensor] | None = None) -> ir.Tensor:
        """Emit the EW for the current node, with this value as its result.

        Its dims lie in memory as those of the first of ``like`` (by default: of the sources) that has its size.
        """
        dtype, shape = low.output_type()
        result = self.to(result, as_float=dtype.is_float)
        if not self.steps or result != len(self.is_float) - 1:  # the last value is the result
            self.step(Step.ADD, result, self.number(0, as_float=dtype.is_float))
        dst = low.like_node(order_for(shape, self.sources if like is None else like))
        return low.emit(Op.EW, dst, self.sources, steps=tuple(self.steps))


Build = Callable[..., int]
"""Called with the chain and the numbers of its operands; returns that of the result."""


def broadcast(tensor: ir.Tensor, shape: Sequence[Any]) -> ir.Tensor:
    """Return a view of that shape, repeated elements with a stride of zero."""
    if len(tensor.shape) == len(shape) and all(map(equal, tensor.shape, shape)):
        return tensor
    missing = len(shape) - len(tensor.shape)
    strides: list[Any] = [0] * missing
    for have, want, stride in zip(tensor.shape, shape[missing:], tensor.strides, strict=True):
        strides.append(stride if equal(have, want) else 0)
    return tensor.view(shape, strides)


def broadcast_from(axis: int, tensor: ir.Tensor, shape: Sequence[Any]) -> ir.Tensor:
    """Return a view of that shape whose dims from ``axis`` on are the tensor's; along all others it repeats."""
    behind = len(shape) - axis - len(tensor.shape)
    return broadcast(tensor.view((*tensor.shape, *[1] * behind), (*tensor.strides, *[0] * behind)), shape)


def order_for(shape: Sequence[Any], sources: Sequence[ir.Tensor]) -> tuple[int, ...] | None:
    """Return the order of dims in memory that most of the sources have: that of the first dense one of full size."""
    for source in sources:
        if len(source.shape) == len(shape) and all(map(equal, source.shape, shape)) and source.order is not None:
            return source.order
    return None


def elementwise(low: Lowering, operands: Sequence[Any], build: Build, compute: bool | None = None) -> ir.Tensor:
    """Emit one EW for the current node.

    Args:
        low: the lowering.
        operands: tensors and numbers.
        build: makes the steps.
        compute: whether operands are brought to float32 (True) or int64 (False) first; None: to what the result is.
    """
    dtype, shape = low.output_type()
    chain, number = Chain(), dtype.is_float if compute is None else compute
    places = [chain.read(broadcast(one, shape)) if isinstance(one, ir.Tensor) else None for one in operands]
    values = [
        chain.number(operand, as_float=number) if place is None else chain.to(place, as_float=number)
        for operand, place in zip(operands, places, strict=True)
    ]
    return chain.emit(low, build(chain, *values))


def as_they_are(low: Lowering, tensors: Sequence[ir.Tensor], build: Build) -> ir.Tensor:
    """Emit one EW for the current node whose operands stay floats or whole numbers."""
    _, shape = low.output_type()
    chain = Chain()
    values = [chain.read(broadcast(tensor, shape)) for tensor in tensors]
    return chain.emit(low, build(chain, *values))


def plain(code: Step) -> Build:
    """Return what makes a chain of one step."""
    return lambda chain, *values: chain.step(code, *values)
