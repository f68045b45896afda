"""Module file: a torch module that the caller holds, as a ``.pt2`` file that workers open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def module_file(module: torch.nn.Module, inputs: Sequence[Any] | None, batch_sizes: tuple[int, ...]) -> Path:
    """Capture a module into a ``.pt2`` file in the cache, with a free batch where sizes beside 1 are asked for.

    Raises:
        UsageError: it is no module, or the inputs are no tensors.
        CaptureError: it cannot be captured.
    """
    import torch
    from torch.utils import _pytree

    from cross_backend.lowering.free_batch import capture_free
    from cross_backend.program.capture import capture
    from cross_backend.workloads import Workload

    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"model is a {type(module).__name__}; give a name, a path or a torch.nn.Module.")
    if inputs is None:
        raise UsageError("a torch module needs its example inputs: ComparisonRunner(model=module, inputs=(x,), …).")
    inputs = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)  # a bare tensor is one input
    strange = [type(x).__name__ for x in _pytree.tree_leaves(inputs) if not isinstance(x, torch.Tensor)]
    if strange:
        raise UsageError(f"inputs are torch tensors, not {strange[0]}: ComparisonRunner(model=module, inputs=(x,), …).")
    name = type(module).__name__
    captured = capture(module, inputs) if batch_sizes == (1,) else capture_free(Workload(name, module.eval(), inputs))
    return program_file(captured, name)


def program_file(program: ExportedProgram, name: str) -> Path:
    """Write a captured program into a ``.pt2`` file in the cache, under its digest."""
    from cross_backend.cache import Cache
    from cross_backend.program.capture import digest_program
    from cross_backend.program.flattening import flatten
    from cross_backend.program.pt2 import save_pt2

    program = flatten(program)  # its file can be read where the classes of its own structure are not known
    cache = Cache()
    path = cache.root / "modules" / digest_program(program)[:32] / f"{name}.pt2"
    if not path.is_file():
        with cache.scratch() as folder:
            save_pt2(program, folder / path.name, examples=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            (folder / path.name).replace(path)
    return path
