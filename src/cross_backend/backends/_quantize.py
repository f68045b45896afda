"""Quantisation of a captured program with a vendor's PT2E quantiser, on the workload's calibration inputs."""

from __future__ import annotations

from typing import Any

from cross_backend.backend import Calibration
from cross_backend.backends._to_torch import to_torch


def int8_quantizer() -> Any:
    """Return XNNPACK's quantiser: weights by a scale for each channel, all else by a scale and a zero point."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))


def quantize(program: Any, quantizer: Any, calibration: Calibration) -> Any:
    """Return the program with quantise and dequantise operators where the quantiser wants them.

    The captured program is not changed: quantising starts again from its module.
    """
    import torch
    from torch.utils import _pytree
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    args, _ = program.example_inputs
    _, structure = _pytree.tree_flatten(args)
    prepared = prepare_pt2e(program.module(), quantizer)
    with torch.no_grad():
        for sample in calibration:
            prepared(*_pytree.tree_unflatten([to_torch(x) for x in sample], structure))
        return torch.export.export(convert_pt2e(prepared), args)
