"""Complex numbers: their views, parts and magnitudes.

They lie as pairs in an ordinary tensor. Other operators on them run on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.errors import UnsupportedError
from atalla.isa import Dtype, Step
from atalla.passes.lowering import Lowering
from atalla.passes.rule import RULES
from atalla.passes.rules.chain import elementwise
from atalla.passes.rules.views import place

if TYPE_CHECKING:
    from torch.fx import Node

SMALLEST = 1.1754943508222875e-38
"""Smallest float32 that is no denormal number."""


def on_complex(low: Lowering, node: Node, arguments: Sequence[Any]) -> Any:
    """Lower a node that takes or makes complex numbers.

    Raises:
        UnsupportedError: no instruction does it.
    """
    name = str(node.target)
    if name in _VIEWS:
        return _view(low, name, arguments)
    if name == "aten._fft_r2c.default":
        return RULES[name](low, *arguments)
    if name not in _FUNCTIONS or any(isinstance(one, complex) for one in arguments):
        raise UnsupportedError("no instruction computes with complex numbers")
    return _FUNCTIONS[name](low, *arguments)


def magnitude(low: Lowering, x: ir.Complex) -> ir.Tensor:
    """``|x|``, the larger part taken out, so that no square overflows or vanishes; infinite where a part is."""
    if x.pairs.dtype is not Dtype.F32:
        raise UnsupportedError("Tensors must be float32")

    def build(chain: Any, real: int, imaginary: int) -> int:
        real, imaginary = chain.step(Step.ABS, real), chain.step(Step.ABS, imaginary)
        large, small = chain.step(Step.MAX, real, imaginary), chain.step(Step.MIN, real, imaginary)
        least = chain.number(SMALLEST, as_float=True)
        ratio = chain.step(Step.DIV, small, chain.step(Step.MAX, large, least))
        one = chain.number(1, as_float=True)
        root = chain.step(Step.SQRT, chain.step(Step.ADD, chain.step(Step.MUL, ratio, ratio), one))
        infinite = chain.number(math.inf, as_float=True)
        is_infinite = chain.step(Step.OR, *(chain.step(Step.EQ, one, infinite) for one in (real, imaginary)))
        return int(chain.step(Step.WHERE, is_infinite, infinite, chain.step(Step.MUL, large, root)))

    return elementwise(low, [part(x, 0), part(x, 1)], build)


def part(x: ir.Complex, which: int) -> ir.Tensor:
    """Return a view of the real (0) or the imaginary (1) parts."""
    pairs = x.pairs
    return pairs.view(pairs.shape[:-1], pairs.strides[:-1], which * pairs.strides[-1])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten.abs.default": magnitude,
    "aten.real.default": lambda _, x: part(x, 0),
    "aten.imag.default": lambda _, x: part(x, 1),
    "aten.view_as_real.default": lambda _, x: x.pairs,
    "aten.view_as_complex.default": lambda _, x: ir.Complex(x),
}


def _placed(rank: int, *arguments: Any) -> Any:
    """Return arguments with all dims counted from the beginning, as the pairs have one more at the end."""
    return [place(one, rank) for one in arguments]


def _first(rank: int, index: int = 0, *others: Any) -> list[Any]:
    return [place(index, rank), *others]


def _second(rank: int, what: Any, index: int = 0) -> list[Any]:
    return [what, place(index, rank)]


_VIEWS: dict[str, Callable[..., list[Any]]] = {
    **dict.fromkeys(
        (f"aten.{name}.default" for name in ("view", "reshape", "_unsafe_view", "clone", "alias", "detach", "expand")),
        lambda _, *others: list(others),
    ),
    "aten.permute.default": lambda rank, order: [[*_placed(rank, *order), rank]],
    "aten.transpose.int": _placed,
    "aten.unsqueeze.default": lambda rank, index: _placed(rank + 1, index),
    "aten.squeeze.default": lambda rank: [list(range(rank))],
    "aten.squeeze.dim": lambda rank, index: [_placed(rank, index)],
    "aten.squeeze.dims": lambda rank, dims: [_placed(rank, *dims)],
    "aten.select.int": _first,
    "aten.slice.Tensor": _first,
    "aten.unbind.int": _first,
    "aten.split.Tensor": _second,
    "aten.split_with_sizes.default": _second,
}
"""Operator → its arguments for the pairs, of the rank of the complex numbers and its own arguments."""


def _view(low: Lowering, name: str, arguments: Sequence[Any]) -> Any:
    """Return a view of complex numbers: the same of their pairs."""
    x, *others = arguments
    pairs = x.pairs
    made = RULES[name](low, pairs, *_VIEWS[name](len(pairs.shape) - 1, *others))
    return tuple(map(ir.Complex, made)) if isinstance(made, tuple) else ir.Complex(made)
