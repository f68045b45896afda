"""Capture: a module becomes a program, by ``torch.export``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError, one_line
from cross_backend.program.flattening import structure_of
from cross_backend.program.layout import row_major
from cross_backend.program.state import state_of, value_of
from cross_backend.workloads.user_code import place_of, with_place

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

TRACING = threading.Lock()
"""Held by threads that capture a program or build one: torch's tracing and its flags are the whole process's."""


def capture(
    module: torch.nn.Module,
    inputs: Sequence[Any] = (),
    dynamic_shapes: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
) -> ExportedProgram:
    """Capture a module with ``torch.export``.

    Example:
        >>> program = xb.capture(model, (example,))
        >>> batch = torch.export.Dim("batch")
        >>> free = xb.capture(model, (torch.ones(2, 4),), dynamic_shapes=({0: batch},))

    Args:
        module: put into evaluation mode for the capture.
        inputs: positional example inputs, in any structure; captured in row-major layout, because compilers bake the
            strides in. Numbers, texts and None among them become part of the program.
        dynamic_shapes: as ``torch.export.export`` takes them; static where None.
        kwargs: example inputs by name.

    Raises:
        CaptureError: torch cannot export it, or it takes or returns what cannot be shipped.
    """
    import torch

    if hasattr(inputs, "dtype"):  # a bare tensor is one input, not a sequence of rows
        inputs = (inputs,)
    try:
        with contextlib.suppress(NotImplementedError):  # a program's module has one mode
            module.eval()
        args, (named,) = row_major(inputs), row_major([dict(kwargs or {})])
        with torch.no_grad():
            program = torch.export.export(module, args, named or None, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise CaptureError(f"torch.export cannot capture {type(module).__name__}: {_why(error)}") from error
    structure_of(program)  # says now what cannot be shipped
    for name in state_of(program):  # a later call of the module must not change the program's initial state
        table = program.state_dict if name in program.state_dict else program.constants
        table[name] = value_of(program, name).clone()
    return program


_ON_DATA = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "PendingUnbackedSymbolNotFound")
"""What torch raises where Python needs the value of a tensor."""


def _why(error: Exception) -> str:
    """Return why torch refuses a module, and in which line of it."""
    if type(error).__name__ in _ON_DATA or any(name in str(error) for name in _ON_DATA):
        place = place_of(error)
        return (
            f"{f'{place}: ' if place else ''}a branch or a size depends on data ({one_line(error, 160)}). "
            "Write a branch with torch.cond."
        )
    strange = re.match(r"(?:Found|Unsupported input type) <class '(.+?)'>", str(error))
    if strange is None:
        return with_place(error)
    name = strange[1].rpartition(".")[2]
    return (
        f"it takes or returns a {name}, which torch does not know: leave it out, make it a dict, or, if it is a "
        f"dataclass, call torch.export.register_dataclass({name}) before."
    )


def example_inputs(program: ExportedProgram) -> tuple[Any, ...]:
    """Return the positional inputs that a flat program was exported with.

    Raises:
        CaptureError: it has none, or such as compilers cannot be given.
    """
    if program.example_inputs is None:
        raise CaptureError(
            "the program holds no example inputs; export it again with torch.export.export(module, inputs)."
        )
    args, kwargs = program.example_inputs
    if kwargs:
        raise CaptureError("programs with keyword inputs are not supported; export the module with positional inputs.")
    return tuple(args)


def ports_of(program: ExportedProgram) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """Return the inputs and the outputs of a flat program: names, and what torch knows of them; None of a constant."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    ports = program.graph_signature.user_inputs, program.graph_signature.user_outputs
    taken, given = ([(str(name), values.get(str(name))) for name in names] for names in ports)
    return taken, given


def digest_program(program: ExportedProgram) -> str:
    """Return the digest of what a program computes: all its graphs, its signature and tensors, not its file's times."""
    import torch

    top = program.graph_module
    graphs = {name: module.code for name, module in top.named_modules() if isinstance(module, torch.fx.GraphModule)}
    digest = hashlib.sha256(
        f"{json.dumps(graphs, sort_keys=True)}\0{program.graph_signature}\0{program.range_constraints}".encode()
    )
    inner = {f"{name}.": tensor for name, tensor in (*top.named_parameters(), *top.named_buffers())}
    tensors = {**inner, **program.state_dict, **program.constants}
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(name.encode())
        if isinstance(tensor, torch.Tensor):
            digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
