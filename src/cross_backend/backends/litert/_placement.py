"""What a finished ``.tflite`` file computes where, and in what arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from cross_backend.backends.litert._engine import delegated, open_file
from cross_backend.backends.litert._file import Operator, Tensor, TfliteGraph
from cross_backend.placement import Arithmetic, Operators, Placement, count_operators, group_left

_XNNPACK = "XNNPACK"
_CONVERTS = {"QUANTIZE", "DEQUANTIZE"}
_MOVES = {
    *("BROADCAST_TO", "CONCATENATION", "EXPAND_DIMS", "GATHER", "GATHER_ND", "MIRROR_PAD", "PACK", "PAD", "PADV2"),
    *("RESHAPE", "REVERSE_V2", "SHAPE", "SLICE", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE"),
    *("UNPACK", "CAST", "EMBEDDING_LOOKUP"),
}
"""Operators that move numbers and compute none."""
_LOW = {"int8", "uint8", "int16", "int4", "int2", "uint4"}


def read_placement(path: Path, graph: TfliteGraph) -> Placement:
    """Ask the runtime which operators of a file its delegate takes; its own kernels compute the others.

    Where the delegate takes none, those kernels are all there is, and nothing counts as left.

    Raises:
        LoadError: the runtime cannot open the file.
    """
    parts, taken = delegated(open_file(path, 1))
    is_inside = [place in taken or not parts for place in range(len(graph.operators))]
    inside = Counter(op.kind for op, here in zip(graph.operators, is_inside, strict=True) if here)
    left = [op for op, here in zip(graph.operators, is_inside, strict=True) if not here]
    return Placement(
        delegates={_XNNPACK: parts} if parts else {},
        inside=count_operators(inside + Counter(graph.bodies)),
        left=group_left(Operators(op.kind, 1, _why(op, graph), _flops(op, graph)) for op in left),
        constant_bytes=graph.constant_bytes,
    )


def kinds_left(path: Path, graph: TfliteGraph) -> Counter[str]:
    """Count the operators that the delegate leaves to the runtime's own kernels, by kind.

    Raises:
        LoadError: the runtime cannot open the file.
    """
    _, taken = delegated(open_file(path, 1))
    return Counter(op.kind for place, op in enumerate(graph.operators) if place not in taken)


def read_arithmetic(graph: TfliteGraph) -> Arithmetic:
    """Tell operators apart by the types of what they take and give; an operator with low weights computes low."""
    low: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    conversions = 0
    for op in graph.operators:
        if op.kind in _CONVERTS:
            conversions += 1
        elif op.kind not in _MOVES:
            is_low = any(t.dtype in _LOW and t.is_quantised for t in _tensors(op, graph))
            (low if is_low else kept)[op.kind] += 1
    return Arithmetic(count_operators(low), count_operators(kept), conversions)


def _tensors(op: Operator, graph: TfliteGraph) -> list[Tensor]:
    return [graph.tensors[index] for index in (*op.inputs, *op.outputs)]


def _why(op: Operator, graph: TfliteGraph) -> str:
    """LiteRT does not say why; types are what decides most often."""
    types = sorted({tensor.dtype for tensor in _tensors(op, graph)})
    return f"XNNPACK does not take it with {', '.join(types)}"


def _flops(op: Operator, graph: TfliteGraph) -> int:
    """Count a convolution's or matrix product's operations, as torch's formulas do; others count as none."""
    taken = [graph.tensors[i].shape for i in op.inputs]
    given = [graph.tensors[i].shape for i in op.outputs]
    out = math.prod(given[0])
    match op.kind:
        case "CONV_2D" | "FULLY_CONNECTED":  # weights: outputs first
            return 2 * out * math.prod(taken[1][1:])
        case "DEPTHWISE_CONV_2D":
            return 2 * out * math.prod(taken[1][1:3])
        case "CONV_3D":  # outputs last
            return 2 * out * math.prod(taken[1][:-1])
        case "TRANSPOSE_CONV":  # the first input is the output's shape
            return 2 * math.prod(taken[2]) * math.prod(taken[1][:3])
        case "BATCH_MATMUL":
            return 2 * out * math.prod(taken[0][-2:]) // max(given[0][-2], 1)
    return 0
