"""Products: a batch norm before, a residual and an activation behind become part of a product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atalla import ir
from atalla.dims import equal
from atalla.isa import Act, Dtype, Op, Step, float32_of
from atalla.passes.fuse.uses import Uses, each_ew, same_rows
from atalla.passes.lowering import constant, constant_data

if TYPE_CHECKING:
    import torch


PRODUCTS = frozenset({Op.GEMM, Op.CONV2D, Op.DWCONV2D})
"""Operations with weights, which take a residual and an activation."""
AFFINE = ((Step.MUL, 0, 1, 0), (Step.ADD, 3, 2, 0))
"""Steps of a factor and a summand."""
RESIDUAL = ((Step.ADD, 0, 1, 0),)
ACTS = {
    Step.RELU: Act.RELU, Step.HARDSWISH: Act.HARDSWISH, Step.HARDSIGMOID: Act.HARDSIGMOID, Step.SIGMOID: Act.SIGMOID,
    Step.SILU: Act.SILU, Step.GELU: Act.GELU, Step.GELU_TANH: Act.GELU_TANH, Step.TANH: Act.TANH,
}  # fmt: skip


def into_weights(program: ir.Program) -> None:
    """A factor and a summand for each channel (a batch norm) become part of the weights before it."""
    each_ew(program, _scaled_weights)


def _scaled_weights(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    if ew.steps != AFFINE or ew.sources[0] is None:
        return None
    producer = uses.sole(ew.sources[0], ew)
    if producer is None or producer.op not in PRODUCTS or producer.attributes.get("act"):
        return None
    if len(producer.sources) > 3 and producer.sources[3] is not None:
        return None
    axis = len(ew.sources[0].shape) - 1 if producer.op is Op.GEMM else 1
    factor, summand = (_by_channel(one, axis) for one in ew.sources[1:3])
    weight, bias = producer.sources[1], producer.sources[2]
    if factor is None or summand is None or weight is None:
        return None
    filters, added = constant_data(weight), 0.0 if bias is None else constant_data(bias)
    assert filters is not None and added is not None, "weights are constants"
    scaled = filters.double() * factor.double().reshape(-1, *([1] * (filters.dim() - 1)))
    moved = added * factor.double() + summand.double()
    producer.sources = (
        producer.sources[0],
        constant(scaled.float(), f"{weight.name}.scaled"),
        constant(moved.float(), f"{ew.node}.bias"),
    )
    return producer


def _by_channel(tensor: ir.Tensor | None, axis: int) -> torch.Tensor | None:
    """Return a constant's elements along an axis where it is the same along all others."""
    if tensor is None or any(
        not equal(stride, 0) for i, stride in enumerate(tensor.strides) if i != axis and not equal(tensor.shape[i], 1)
    ):
        return None
    data = constant_data(tensor.view([n if i == axis else 1 for i, n in enumerate(tensor.shape)], tensor.strides))
    return None if data is None else data.flatten()


def into_residuals(program: ir.Program) -> None:
    """What is added to a product is added where the product is, before it is stored."""
    each_ew(program, _residual)


def into_activations(program: ir.Program) -> None:
    """An activation is applied where the product is, before it is stored."""
    each_ew(program, _activation)


def _residual(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    if ew.steps != RESIDUAL or any(one is None or one.dtype is not Dtype.F32 for one in ew.sources):
        return None
    for mine, other in ((0, 1), (1, 0)):
        tensor, residual = ew.sources[mine], ew.sources[other]
        assert tensor is not None and residual is not None, "looked at above"
        producer = uses.sole(tensor, ew)
        if producer is None or producer.op not in PRODUCTS or producer.attributes.get("act"):
            continue
        if len(producer.sources) > 3 or tensor.storage is residual.storage or ew.dst is None:
            continue
        if not same_rows(tensor, residual) or not same_rows(tensor, ew.dst):
            continue
        producer.sources = (*producer.sources, *([None] * (3 - len(producer.sources))), residual)
        return producer
    return None


def _activation(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    if len(ew.sources) != 1 or ew.sources[0] is None or ew.dst is None or ew.dst.dtype is not Dtype.F32:
        return None
    found = as_activation(ew.steps)
    producer = uses.sole(ew.sources[0], ew)
    if found is None or producer is None or producer.op not in PRODUCTS or producer.attributes.get("act"):
        return None
    if not same_rows(ew.sources[0], ew.dst):
        return None
    act, low, high = found
    producer.attributes = {**producer.attributes, "act": int(act), "low": low, "high": high}
    return producer


def as_activation(steps: ir.Steps) -> tuple[Act, float, float] | None:
    """Return the activation that a chain of one source is."""
    if len(steps) == 1:
        act = ACTS.get(Step(steps[0][0]))
        return None if act is None else (act, 0.0, 0.0)
    codes = [Step(step[0]) for step in steps]
    if codes == [Step.FLOAT, Step.MAX, Step.FLOAT, Step.MIN] and steps[1][1:3] == (0, 1) and steps[3][1:3] == (2, 3):
        return Act.CLAMP, float32_of(steps[0][1]), float32_of(steps[2][1])
    return None
