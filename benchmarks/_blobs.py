"""Classifiers of torchvision, captured, as blobs of float32 or int8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cross_backend.workloads.vision import classifier


@dataclass(frozen=True)
class Captured:
    """A network, and what quantisers observe."""

    program: Any
    """Of ``torch.export``."""
    inputs: tuple[Any, ...]
    """Of the example."""
    calibration: tuple[tuple[Any, ...], ...]
    """Inputs of the same form."""

    def blob(self, precision: str) -> bytes:
        """Compile it to ``fp32`` or ``int8``."""
        import atalla
        from cross_backend.backends._quantize import int8_quantizer, quantize

        if precision == "fp32":
            return atalla.compile(self.program).data
        samples = [tuple(x.numpy() for x in sample) for sample in self.calibration]
        return atalla.compile(quantize(self.program, int8_quantizer(), samples)).data


def captured(name: str) -> Captured:
    """Capture one, with random weights."""
    import torch

    workload = classifier(name)
    model: Any = workload.model
    return Captured(torch.export.export(model, workload.inputs), workload.inputs, workload.calibration)
