"""Count parameters and floating point operations of built-in models, for their rows in ``workloads/table.py``.

    python docs/model_figures.py [NAME…]

Nothing is computed: models are built on torch's meta device, whose tensors have shapes and no values.
"""

from __future__ import annotations

import sys

from cross_backend.workloads import WORKLOADS, find_workload

FITTED = ("digits_cnn", "linear_regression", "llama_text")
"""Models that are fitted to data while they are built; they are small."""


def figures(name: str) -> tuple[int, int]:
    """Give a model's parameters, shared ones once, and the floating point operations of one inference of batch 1.

    Counted by torch's flop counter with a multiply-add as two, attention as the matrix products that it is, as
    ``Captured.flops`` is.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("cpu" if name in FITTED else "meta"):
        workload = find_workload(name).build()
    model = workload.model
    assert isinstance(model, torch.nn.Module)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        model(*workload.inputs)
    return sum(tensor.numel() for tensor in model.parameters()), int(counter.get_total_flops())


def main(names: list[str]) -> None:
    """Print a line a model."""
    for name in names or WORKLOADS:
        print(name, *(f"{figure:_}" for figure in figures(name)))


if __name__ == "__main__":
    main(sys.argv[1:])
