"""Floating point operations of a captured program."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_CONTROL_FLOW = {"cond", "map_impl", "scan", "while_loop"}
"""Higher-order operators that choose or repeat."""


def count_flops(program: ExportedProgram, inputs: Sequence[Any]) -> int | None:
    """Count the floating point operations of one call with torch's own formulas; nothing is computed.

    Fused attention and recurrent layers, which have no formula, are counted as the matrix products that they are.
    Gives None where the work depends on the inputs (free extents, control flow) or torch's counter cannot follow.
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
                program.module()(*given)
    except Exception:
        return None
    return int(counter.get_total_flops())
