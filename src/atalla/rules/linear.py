"""Products of matrices: GEMM where one of them is a constant that can be packed, else BMM."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.dims import equal
from atalla.isa import Dtype, Op, Step
from atalla.lower import Lowering, UnsupportedError, known
from atalla.rules import rule
from atalla.rules.elementwise import Chain, broadcast


def float32(*tensors: Any) -> None:
    """Refuse other element types.

    Raises:
        UnsupportedError: one is not float32.
    """
    for tensor in tensors:
        if isinstance(tensor, ir.Tensor) and tensor.dtype is not Dtype.F32:
            raise UnsupportedError(f"{tensor.dtype.name} is not multiplied, only float32 is")


def rows(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Give the same elements with the last dim dense."""
    return x if equal(x.strides[-1], 1) or equal(x.shape[-1], 1) else low.contiguous(x)


def gemm(low: Lowering, x: ir.Tensor, weight: ir.Tensor, bias: ir.Tensor | None) -> ir.Tensor:
    """Emit ``x · weightᵀ + bias``; weight ``[N, K]`` is a constant."""
    return low.emit(Op.GEMM, low.like_node(), [rows(low, x), weight, bias])


@rule("linear.default")
def linear(low: Lowering, x: ir.Tensor, weight: ir.Tensor, bias: ir.Tensor | None = None) -> ir.Tensor:
    """``x · weightᵀ + bias``."""
    float32(x, weight, bias)
    if len(weight.shape) == 2 and known(weight) is not None and len(x.shape) >= 2 and _packs(bias):
        return gemm(low, x, weight, bias)
    if len(weight.shape) != 2 or len(x.shape) < 2:
        raise UnsupportedError("a linear layer takes matrices, only")
    transposed = weight.view(weight.shape[::-1], weight.strides[::-1])
    return _plus(low, product(low, x, transposed), bias)


def _packs(bias: ir.Tensor | None) -> bool:
    return bias is None or (len(bias.shape) == 1 and known(bias) is not None)


def _plus(low: Lowering, x: ir.Tensor, bias: ir.Tensor | None) -> ir.Tensor:
    if bias is None:
        return x
    chain = Chain()
    first, second = chain.read(x), chain.read(broadcast(bias, x.shape))
    chain.step(Step.ADD, first, second)
    return low.emit(Op.EW, low.like_node(), chain.sources, steps=chain.attribute())


@rule("addmm.default")
def addmm(
    low: Lowering, bias: ir.Tensor, a: ir.Tensor, b: ir.Tensor, *, beta: float = 1, alpha: float = 1
) -> ir.Tensor:
    """``bias + a · b``."""
    float32(bias, a, b)
    if beta != 1 or alpha != 1:
        raise UnsupportedError("a sum of products with factors")
    if known(b) is not None and _packs(bias):
        return gemm(low, a, b.view(b.shape[::-1], b.strides[::-1]), bias)
    return _plus(low, product(low, a, b), bias)


@rule("matmul.default", "mm.default", "bmm.default")
def matmul(low: Lowering, a: ir.Tensor, b: ir.Tensor) -> ir.Tensor:
    """``a · b``, of batches where there are more dims."""
    float32(a, b)
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise UnsupportedError("a product with a vector")
    if len(b.shape) == 2 and known(b) is not None:
        return gemm(low, a, b.view(b.shape[::-1], b.strides[::-1]), None)
    return product(low, a, b)


def product(low: Lowering, a: ir.Tensor, b: ir.Tensor) -> ir.Tensor:
    """Emit a product of two matrices, or batches of such, that are known only at run time."""
    _, shape = low.meta()
    a = broadcast(a, (*shape[:-2], *a.shape[-2:]))
    b = broadcast(b, (*shape[:-2], *b.shape[-2:]))
    return low.emit(Op.BMM, low.like_node(), [a, b], scale=1.0)
