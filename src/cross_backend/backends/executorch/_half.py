"""float16 inside: a program of float16 weights and arithmetic, whose inputs and outputs stay as captured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

_LARGEST = 65504.0
"""Largest finite float16."""


def decomposed(program: Any, kept: Iterable[Any]) -> Any:
    """Return the program in core operators but for ``kept`` and layer_norm, which :func:`to_half` widens.

    In float32 that adds nothing; in float16 torch's decompositions compute in float32 and cast twice an operator.
    """
    import torch

    table = torch.export.default_decompositions()
    for operator in (*kept, torch.ops.aten.layer_norm.default):
        table.pop(operator, None)
    return program.run_decompositions(table)


def to_half(program: Any) -> Any:
    """Return the program in float16; inputs are cast when they come in, outputs when they go out.

    Numbers beyond float16's range, such as the -1e9 of a mask, become its largest ones. The captured program is not
    changed.

    Args:
        program: an ``ExportedProgram``.
    """
    import copy

    import torch
    from torch.fx.node import map_aggregate

    module, signature = copy.deepcopy(program.graph_module), copy.deepcopy(program.graph_signature)
    for spec, node in zip(signature.input_specs, module.graph.find_nodes(op="placeholder"), strict=True):
        spec.arg.name = node.name  # copying renames what is called like a Python builtin, such as ``input``
    given, outputs = set(signature.user_inputs), list(module.graph.output_node().args[0])
    users = [spec.kind == torch.export.graph_signature.OutputKind.USER_OUTPUT for spec in signature.output_specs]
    wide = [is_user and _is_float32(node) for is_user, node in zip(users, outputs, strict=True)]
    parts = [m for m in module.modules() if isinstance(m, torch.fx.GraphModule)]  # branches, too
    for nested in parts:
        for node in nested.graph.nodes:
            change = _half_number if any(map(_is_float32, (node, *node.all_input_nodes))) else _half_type
            node.args, node.kwargs = (map_aggregate(one, change) for one in (node.args, node.kwargs))
        nested.recompile()
    for node in module.graph.find_nodes(op="placeholder"):
        if _is_float32(node) and node.name in given:
            _narrow(node)
        elif _is_float32(node):
            node.meta["val"] = node.meta["val"].half()
    for nested in parts:
        for node in nested.graph.find_nodes(op="call_function", target=torch.ops.aten.layer_norm.default):
            if _is_float32(node):
                _widen(node)
    _cast_outputs(module.graph, signature, wide)
    _infer(module)
    tensors = ({name: _half_tensor(x) for name, x in row.items()} for row in (program.state_dict, program.constants))
    state, constants = tensors
    return program._update(module, signature, state_dict=state, constants=constants)


def _half_type(value: Any) -> Any:
    """Return float16 for float32; other arguments stay."""
    import torch

    return torch.float16 if value is torch.float32 else value


def _half_number(value: Any) -> Any:
    """Do the same, and return numbers that float16 has."""
    if isinstance(value, float) and _LARGEST < abs(value) < float("inf"):
        return _LARGEST if value > 0 else -_LARGEST
    return _half_type(value)


def _half_tensor(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return value
    finite = torch.where(value.isfinite(), value.clamp(-_LARGEST, _LARGEST), value).half()
    return torch.nn.Parameter(finite, value.requires_grad) if isinstance(value, torch.nn.Parameter) else finite


def _is_float32(node: Any) -> bool:
    import torch

    return isinstance(node, torch.fx.Node) and getattr(node.meta.get("val"), "dtype", None) == torch.float32


def _narrow(node: Any) -> None:
    """Let everything that uses a value use its float16."""
    import torch

    with node.graph.inserting_after(node):
        cast = node.graph.call_function(torch.ops.aten.to.dtype, (node, torch.float16))
    node.replace_all_uses_with(cast, delete_user_cb=lambda user: user is not cast)


def _widen(node: Any) -> None:
    """Let layer_norm compute in float32 between casts.

    ExecuTorch 1.5's kernel for float16 computes wrong numbers where 256 or more are normalised together.
    """
    import torch
    from torch.fx.node import map_arg

    def wide(given: Any) -> Any:
        return node.graph.call_function(torch.ops.aten.to.dtype, (given, torch.float32))

    with node.graph.inserting_before(node):
        node.args, node.kwargs = map_arg(node.args, wide), map_arg(node.kwargs, wide)
    _narrow(node)


def _cast_outputs(graph: Any, signature: Any, wide: list[bool]) -> None:
    """Cast outputs that were float32 back to it."""
    import torch

    end = graph.output_node()
    values = list(end.args[0])
    for place, is_wide in enumerate(wide):
        if is_wide:
            with graph.inserting_before(end):
                values[place] = graph.call_function(torch.ops.aten.to.dtype, (values[place], torch.float32))
            signature.output_specs[place].arg.name = values[place].name
    end.args = (tuple(values),)


def _infer(module: Any) -> None:
    """Work out again what every node returns."""
    import torch
    from torch._guards import detect_fake_mode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    values = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    mode = detect_fake_mode(values)
    with mode or contextlib.nullcontext(), torch.no_grad():
        FakeTensorProp(module, mode).propagate_dont_convert_inputs(*values)
    module.recompile()
