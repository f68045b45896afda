"""A product of int8 matrices as a program of one instruction, whose numbers are all zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atalla import ir
from atalla.blob.arena import plan_arena
from atalla.blob.writer import encode
from atalla.isa import QUAD, Dtype, Layout, Op, Space
from atalla.layouts import pack_deep

if TYPE_CHECKING:
    from _products import Product


def blob(product: Product) -> bytes:
    """Return a QGEMM: activations from outside, weights in the blob, int8 out."""
    import torch

    filters = torch.zeros(product.columns, 1, product.depth, dtype=torch.int8)
    data = pack_deep(filters, 1, QUAD).flatten()
    shape = tuple(filters.shape)
    weight = ir.Tensor("weight", Dtype.I8, shape, (0, 0, 0), Space.CONST, layout=Layout.QUADS, data=data)
    zeros = torch.zeros(product.columns)
    ends = [
        ir.Tensor(name, dtype, (product.columns,), (1,), Space.CONST, data=zeros.to(kind))
        for name, dtype, kind in (
            ("sums", Dtype.I32, torch.int32),
            ("scale", Dtype.F32, torch.float32),
            ("offset", Dtype.F32, torch.float32),
        )
    ]
    rows = ir.Tensor("x", Dtype.I8, (product.rows, product.depth), (product.depth, 1), Space.INPUT)
    made = ir.Tensor("y", Dtype.I8, (product.rows, product.columns), (product.columns, 1), Space.OUTPUT)
    attributes = {"zero": 0, "low": -128.0, "high": 127.0}
    program = ir.Program([rows], [made], [ir.Instruction(Op.QGEMM, made, (rows, weight, *ends), attributes)])
    return encode(program, {"producer": "benchmarks"}, plan_arena(program))
