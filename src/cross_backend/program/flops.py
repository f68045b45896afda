"""Floating point operations of a captured program."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.program.running import Runs

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_CONTROL_FLOW = {"cond", "map_impl", "scan", "while_loop"}
"""Higher-order operators that choose or repeat."""
_NORMS, _POOLS = {"softmax", "layer_norm", "group_norm"}, {"avg_pool2d", "adaptive_avg_pool2d"}
_REDUCTIONS = {"sum", "mean", "cumsum", "var", *_NORMS, *_POOLS}
"""Operators of ATen that sum over their input."""


def count_flops(program: ExportedProgram, inputs: Sequence[Any]) -> int | None:
    """Count the floating point operations of one call with torch's own formulas; nothing is computed.

    Fused attention and recurrent layers, which have no formula, are counted as the matrix products that they are.
    None where the work depends on the inputs (free extents, control flow) or torch's counter cannot follow.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils import _pytree
    from torch.utils.flop_counter import FlopCounterMode

    modules = [module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    called = {str(node.target) for module in modules for node in module.graph.nodes}
    if program.range_constraints or called & _CONTROL_FLOW:
        return None
    counter = FlopCounterMode(display=False)
    plain: Any = torch.backends.mkldnn.flags(enabled=False)  # it has fused recurrent layers
    math, fakes = sdpa_kernel(SDPBackend.MATH), FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with (
            warnings.catch_warnings(action="ignore", category=UserWarning),  # the flags bring those of TF32 along
            torch.no_grad(),
            plain,
            math,
            fakes as fake,
        ):
            given = _pytree.tree_map_only(torch.Tensor, fake.from_tensor, tuple(inputs))
            with counter:
                Runs(program).module()(*given)  # its buffers are copies: a call may change them
    except Exception:
        return None
    return int(counter.get_total_flops())


def count_accumulations(program: ExportedProgram) -> int:
    """Return the terms of all sums along a program, one output element of each operator: what its rounding grows with.

    Products of matrices and convolutions sum over what their weights have in common with their input, reductions over
    what they leave out.
    """
    import torch

    modules = [module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return sum(_terms(node) for module in modules for node in module.graph.nodes if node.op == "call_function")


def _terms(node: Any) -> int:
    import torch

    shapes = [
        tuple(x.meta["val"].shape)
        for x in node.all_input_nodes
        if isinstance(x.meta.get("val"), torch.Tensor) and x.meta["val"].is_floating_point()
    ]
    name = str(node.target).partition(".")[2].partition(".")[0] if "aten." in str(node.target) else ""
    try:
        if "conv" in name and len(shapes) > 1:
            return math.prod(map(int, shapes[1][1:]))
        if name in {"linear", "mm", "matmul", "bmm", "addmm", "baddbmm", "scaled_dot_product_attention"} and shapes:
            return max(int(shape[-1]) for shape in shapes[:3])
        if name in _REDUCTIONS:
            return max(int(math.prod(shapes[0]) / max(math.prod(node.meta["val"].shape), 1)), int(shapes[0][-1]))
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RuntimeError):  # a free extent has no number
        return 1
    return 1
