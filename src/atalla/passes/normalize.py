"""Normalise: an exported program in the few operators that the rules know, composites kept, nothing mutated."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

COMPOSITES = (
    "adaptive_avg_pool2d.default",
    "avg_pool2d.default",
    "conv1d.default",
    "conv1d.padding",
    "conv2d.default",
    "conv2d.padding",
    "elu.default",
    "embedding.default",
    "gelu.default",
    "group_norm.default",
    "hardsigmoid.default",
    "hardswish.default",
    "hardtanh.default",
    "layer_norm.default",
    "instance_norm.default",
    "leaky_relu.default",
    "linear.default",
    "log_softmax.int",
    "matmul.default",
    "max_pool2d.default",
    "mish.default",
    "relu6.default",
    "rms_norm.default",
    "scaled_dot_product_attention.default",
    "silu.default",
    "softmax.int",
    "softplus.default",
    *(f"upsample_nearest{dims}d.vec" for dims in (1, 2, 3)),
    *(f"_upsample_nearest_exact{dims}d.vec" for dims in (1, 2, 3)),
    *(f"upsample_{name}.vec" for name in ("linear1d", "bilinear2d", "trilinear3d")),
)
"""What plain Core ATen would take apart: hardswish alone would add 140 nodes to MobileNetV3 (small)."""


def normalize(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Take apart what no rule knows and keep :data:`COMPOSITES`; the given program stays as it is."""
    import torch

    table = torch.export.default_decompositions()
    for name in COMPOSITES:
        packet, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch 2.13 copies its own one the old way
        normal: torch.export.ExportedProgram = program.run_decompositions(table)
    return _in_order(normal)


def _in_order(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Make calls that are made for their effect (checks that linear algebra makes) plain nodes, without tokens."""
    from torch.export.graph_signature import InputKind

    if not any(spec.kind is InputKind.TOKEN for spec in program.graph_signature.input_specs):
        return program
    from torch.export._remove_effect_tokens_pass import _remove_effect_tokens

    return _remove_effect_tokens(program)
