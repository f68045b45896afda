"""Rounding: which operators round, and which give the same bits on every processor."""

from __future__ import annotations

from collections.abc import Collection

from atalla.fuzz.graph import Graph, Node


def _names(text: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" if "." in name else f"aten.{name}.default" for name in text.split())


MOVES = _names(
    "view reshape _unsafe_view permute transpose.int t expand unsqueeze squeeze squeeze.dim squeeze.dims select.int "
    "slice.Tensor split_with_sizes split.Tensor unbind.int diagonal unfold clone alias detach "
    "lift_fresh_copy "
    "contiguous dropout copy cat stack repeat flip "
    "constant_pad_nd tril triu slice_scatter full_like full empty.memory_format "
    "empty_permuted embedding index_select index.Tensor gather scatter.src scatter.value "
    "upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec _upsample_nearest_exact1d.vec "
    "_upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec"
)
"""What they give are elements of what they are given."""
CHOICES = _names(
    "relu abs neg sign floor ceil trunc round maximum minimum clamp clamp_min clamp_max clamp.Tensor clamp_min.Tensor "
    "clamp_max.Tensor hardtanh relu6 where.self masked_fill.Tensor max_pool2d max_pool2d_with_indices "
    "max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d amax amin max min max.dim min.dim"
)
"""They choose, or change a sign, and round nothing."""
COMPARISONS = _names(
    "eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar "
    "ge.Scalar isnan logical_not logical_and logical_or logical_xor argmax argmin any any.dim any.dims all all.dim "
    "all.dims _to_copy median median.dim argsort to.dtype"
)
"""What they give are whole numbers, truths, or elements."""
EXACT = MOVES | CHOICES | COMPARISONS
"""They round nothing: operands that are exact give results that are."""
SUMS = _names("add.Tensor sub.Tensor")
PRODUCTS = _names("linear conv1d conv1d.padding conv2d conv2d.padding mm addmm")
SAME_BITS = MOVES | CHOICES | SUMS | PRODUCTS
"""Of these a program with bf16 is made: every instruction set computes the bits of the reference.

What multiplies and adds in float32 is not among them: some processors round once where others round twice.
"""

SAME_INSTRUCTIONS = frozenset(
    {
        "END",
        "COPY",
        "FILL",
        "IOTA",
        "GATHER",
        "SCATTER",
        "EW",
        "POOL2D",
        "REDUCE",
        "RESIZE2D",
        "BGEMM",
        "BCONV2D",
        "QGEMM",
        "QCONV2D",
        "QDWCONV2D",
    }
)
"""Of these instructions :data:`SAME_BITS` may be made; a product that stays float32 is none of them."""


def same_bits(graph: Graph, instructions: Collection[str]) -> bool:
    """Whether every executor is to give the reference's bits, as it is for int8 and bf16 where nothing else rounds.

    Args:
        graph: the program.
        instructions: the kinds of what it was compiled to.
    """
    if graph.precision == "float32" or not SAME_INSTRUCTIONS.issuperset(instructions):
        return False
    pruned = graph.pruned()
    return all(_is_same(node, pruned) for node in pruned.nodes if node.operator)


def _is_same(node: Node, graph: Graph) -> bool:
    """Whether a node is of those, or a function that lies between int8 and int8: a table, which the compiler made."""
    if node.operator in SAME_BITS or "quantize" in node.operator:
        return True
    made = {one.name: one for one in graph.nodes}
    read = [made[name].operator if name in made else "" for name in node.operands]
    readers = [one.operator for one in graph.nodes if node.name in one.operands]
    is_stored = node.name not in graph.outputs and all(".quantize" in name for name in readers)
    return is_stored and all("dequantize" in name for name in read)
