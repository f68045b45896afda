"""Support: which nodes of a program are the chip's. A rule is a small function; its docstring is the user's reason.

Both doors ask here: the compiler of whole programs, and ExecuTorch's partitioner. To support one operator more, add
its row to ``OPERATORS`` with the rules that hold for it, and its instruction to ``blob.Op``, ``reader.py``,
``simulator.py`` and ``csrc/``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mychip.blob import Op

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

Rule = Callable[["Node"], bool]


def is_float32(node: Node) -> bool:
    """The chip computes in float32 only."""
    import torch

    return all(one.dtype == torch.float32 for one in _tensors(node))


def is_static(node: Node) -> bool:
    """A blob holds one size of every tensor."""
    return all(isinstance(size, int) for one in _tensors(node) for size in one.shape)


def is_not_empty(node: Node) -> bool:
    """The chip's matrices have at least one row and one column."""
    return all(size > 0 for one in _tensors(node) for size in one.shape)


def is_dense(node: Node) -> bool:
    """Tensors must lie row by row, one element behind the other."""
    return all(one.is_contiguous() for one in _tensors(node))


def same_shapes(node: Node) -> bool:
    """The chip broadcasts nothing: both operands must be tensors of the result's shape."""
    return all(_shape(one) == _shape(node) for one in node.args)


def has_matrix(node: Node) -> bool:
    """The weight of a linear layer must be a matrix."""
    return len(_shape(node.args[1]) or ()) == 2


def has_no_alpha(node: Node) -> bool:
    """The chip adds, and scales nothing as it does (``alpha``)."""
    return bool(node.kwargs.get("alpha", 1) == 1)


ALL: tuple[Rule, ...] = (is_float32, is_static, is_not_empty, is_dense)
"""What holds for every tensor on the chip; ``is_static`` comes before those that compare sizes."""


@dataclass(frozen=True)
class Supported:
    """An operator of torch that the chip has an instruction for."""

    op: Op
    rules: tuple[Rule, ...] = ()
    """Beside those for ``ALL``."""


OPERATORS = {
    "aten::add.Tensor": Supported(Op.ADD, (same_shapes, has_no_alpha)),
    "aten::linear": Supported(Op.LINEAR, (has_matrix,)),
    "aten::mul.Tensor": Supported(Op.MUL, (same_shapes,)),
    "aten::relu": Supported(Op.RELU),
}


def operator_of(node: Node) -> str:
    """Return ``aten::add.Tensor``, whether the node is of ATen or of ExecuTorch's edge dialect."""
    name = getattr(node.target, "name", None)
    return str(name()) if callable(name) else str(node.target)


def why_not(node: Node) -> str | None:
    """Return why the chip cannot do a node; None if it can."""
    row = OPERATORS.get(operator_of(node))
    if row is None:
        return "The chip has no instruction for it."
    return broken(node, (*ALL, *row.rules))


def broken(node: Node, rules: tuple[Rule, ...]) -> str | None:
    """Return the reason of the first rule that does not hold."""
    return next((str(rule.__doc__) for rule in rules if not rule(node)), None)


def _shape(one: Any) -> tuple[int, ...] | None:
    """Return the shape of a node's result; None of a plain number."""
    return tuple(one.meta["val"].shape) if hasattr(one, "meta") else None


def _tensors(node: Node) -> list[torch.Tensor]:
    """Return the node's result and what it reads, without their elements."""
    import torch

    found = (one.meta.get("val") for one in (node, *node.all_input_nodes))
    return [one for one in found if isinstance(one, torch.Tensor)]
