"""Products of matrices: GEMM where one of them is a constant that can be packed, else BMM."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.dims import contiguous_strides, equal
from atalla.isa import Op, Step
from atalla.passes.constraints import Request, float32, has_elements
from atalla.passes.lowering import Lowering, constant_data
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast
from atalla.passes.rules.views import t

PRODUCTS = (Op.GEMM, Op.BMM, Op.EW)
"""GEMM for a constant, else BMM; EW for a bias beside a BMM."""


def dense_rows(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Return the same elements with the last dim dense."""
    return x if equal(x.strides[-1], 1) or equal(x.shape[-1], 1) else low.contiguous(x)


def gemm(low: Lowering, x: ir.Tensor, weight: ir.Tensor, bias: ir.Tensor | None) -> ir.Tensor:
    """Emit ``x · weightᵀ + bias``; weight ``[N, K]`` is a constant."""
    return low.emit(Op.GEMM, low.like_node(), [dense_rows(low, x), weight, bias])


def matrices(asked: Request) -> bool:
    """The weight must be a matrix."""
    return len(asked["weight"].shape) == 2


@rule("linear.default", makes=PRODUCTS, needs=(float32, has_elements, matrices))
def linear(low: Lowering, x: ir.Tensor, weight: ir.Tensor, bias: ir.Tensor | None = None) -> ir.Tensor:
    """``x · weightᵀ + bias``."""
    if constant_data(weight) is not None and _packs(bias):
        return gemm(low, x, weight, bias)
    return _plus(low, product(low, x, t(low, weight)), bias)


def _packs(bias: ir.Tensor | None) -> bool:
    return bias is None or (len(bias.shape) == 1 and constant_data(bias) is not None)


def _plus(low: Lowering, x: ir.Tensor, bias: ir.Tensor | None, factor: float = 1) -> ir.Tensor:
    if bias is None:
        return x
    chain = Chain()
    first, second = chain.read(x), chain.read(broadcast(bias, x.shape))
    return chain.emit(low, chain.step(Step.ADD, first, chain.scaled(second, factor)), like=[])


@rule("addmm.default", "baddbmm.default", "addmv.default", makes=PRODUCTS, needs=(float32, has_elements))
def addmm(
    low: Lowering, bias: ir.Tensor, a: ir.Tensor, b: ir.Tensor, *, beta: float = 1, alpha: float = 1
) -> ir.Tensor:
    """``beta · bias + alpha · a · b``, of batches and of vectors, too."""
    is_layer = beta == alpha == 1 and constant_data(b) is not None and len(b.shape) == 2
    if is_layer and _packs(bias) and equal(bias.shape[0], b.shape[1]):
        return gemm(low, a, t(low, b), bias)
    return _plus(low, product(low, a, b, float(alpha)), bias if beta != 0 else None, beta)


@rule(
    "matmul.default",
    "mm.default",
    "bmm.default",
    "mv.default",
    "dot.default",
    makes=PRODUCTS,
    needs=(float32, has_elements),
)
def matmul(low: Lowering, a: ir.Tensor, b: ir.Tensor) -> ir.Tensor:
    """``a · b``, of batches where there are more dims, of vectors where there are fewer."""
    if len(b.shape) == 2 and constant_data(b) is not None:
        return gemm(low, a, t(low, b), None)
    return product(low, a, b)


def product(low: Lowering, a: ir.Tensor, b: ir.Tensor, scale: float = 1.0) -> ir.Tensor:
    """Emit a product of two matrices, or batches of such, that are known only at run time; a vector is one of them."""
    dtype, shape = low.output_type()
    full: list[Any] = list(shape)
    if len(a.shape) == 1:
        a = a.view((1, *a.shape), (0, *a.strides))
        full.insert(len(full) - (len(b.shape) > 1), 1)
    if len(b.shape) == 1:
        b = b.view((*b.shape, 1), (*b.strides, 0))
        full.append(1)
    a = broadcast(a, (*full[:-2], *a.shape[-2:]))
    b = broadcast(b, (*full[:-2], *b.shape[-2:]))
    dst = low.new(dtype, full)
    low.emit(Op.BMM, dst, [a, b], scale=scale)
    return dst if len(full) == len(shape) else dst.view(shape, contiguous_strides(shape))
