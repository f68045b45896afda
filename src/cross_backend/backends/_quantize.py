"""Quantisation of a captured program by its vendor's tools: with a PT2E quantiser, or torchao's matrix products."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from cross_backend.backend import Calibration
from cross_backend.backends._to_torch import to_torch
from cross_backend.errors import UnsupportedError
from cross_backend.program.capture import ports_of

GROUP = 32
"""Weights that share a scale where they have 4 bits."""
_QUANTISERS = ("quantized_decomposed", "torchao")
"""Namespaces of operators that quantise."""


def int8_quantizer(*, is_dynamic: bool = False) -> Any:
    """Return XNNPACK's quantiser: weights by a scale for each channel, all else by a scale and a zero point.

    Args:
        is_dynamic: whether those of activations are computed at each call, and not from the calibration inputs.
    """
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic))


def int4() -> Any:
    """Return torch's type of whole numbers of 4 bits, which its type stubs do not have."""
    import torch

    return torch.int4  # type: ignore[attr-defined]


def four_bits() -> Any:
    """Return torchao's configuration of 4-bit weights in groups, with activations of 8 bits at each call (8da4w)."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig
    from torchao.quantization.granularity import PerGroup

    return Int8DynamicActivationIntxWeightConfig(weight_dtype=int4(), weight_granularity=PerGroup(GROUP))


def quantize(program: Any, quantizer: Any, calibration: Calibration) -> Any:
    """Return the program with quantise and dequantise operators where the quantiser wants them.

    The captured program is not changed: quantising starts again from its module.

    Raises:
        UnsupportedError: it is quantised already, or its weights have 16 bits.
    """
    import torch
    from torch.utils import _pytree
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    _refuse_quantised(program)
    _refuse_narrow(program)
    args, _ = program.example_inputs
    _, structure = _pytree.tree_flatten(args)
    prepared = prepare_pt2e(program.module(), quantizer)
    with torch.no_grad():
        for sample in calibration:
            prepared(*_pytree.tree_unflatten([to_torch(x) for x in sample], structure))
        return _exported(convert_pt2e(prepared), program)


def with_low_products(program: Any, config: Any, group: int = 1) -> Any:
    """Return the program with the matrix products of constant weights as torchao quantises them.

    Args:
        program: an ``ExportedProgram``; it is not changed.
        config: one of torchao's configurations for ``torch.nn.Linear``.
        group: weights that share a scale; products whose inner extent is no multiple of it stay as they are.

    Raises:
        UnsupportedError: it has no such product, or is quantised already.
    """
    import torch
    from torchao.quantization import quantize_
    from torchao.utils import unwrap_tensor_subclass

    _refuse_quantised(program)
    module = program.module()
    products = [node for node in module.graph.nodes if _is_product(node, module, group)]
    if not products:
        raise UnsupportedError("it has no matrix product of constant weights to quantise.")
    for number, node in enumerate(products):
        module.add_submodule(f"low{number}", _linear(node, module))
        with module.graph.inserting_before(node):
            product = module.graph.call_module(f"low{number}", (node.args[0],))
        node.replace_all_uses_with(product)
        module.graph.erase_node(node)
    _drop_unused(module)
    with torch.no_grad():
        quantize_(module, config)
        return _exported(unwrap_tensor_subclass(module), program)


def _is_product(node: Any, module: Any, group: int) -> bool:
    import torch

    if node.target is not torch.ops.aten.linear.default or any(one.op != "get_attr" for one in node.args[1:] if one):
        return False
    return bool(_attribute(node.args[1], module).shape[1] % group == 0)


def _attribute(node: Any, module: Any) -> Any:
    return operator.attrgetter(node.target)(module).detach()


def _linear(node: Any, module: Any) -> Any:
    import torch

    weight = _attribute(node.args[1], module)
    bias = _attribute(node.args[2], module) if len(node.args) > 2 and node.args[2] else None
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = torch.nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        linear.bias = torch.nn.Parameter(bias, requires_grad=False)
    return linear.eval()


def _drop_unused(module: Any) -> None:
    """Take out the weights that no node names any more: torch.export would keep them."""
    module.graph.eliminate_dead_code()
    used = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    for name, _ in [*module.named_parameters(), *module.named_buffers()]:
        if name not in used and not name.startswith("low"):
            owner, _, last = name.rpartition(".")
            delattr(module.get_submodule(owner), last)
    module.recompile()


def _exported(module: Any, like: Any) -> Any:
    """Capture a module again, with the free extents of the program that it was made of."""
    import torch
    from torch.export import Dim
    from torch.utils import _pytree

    args, _ = like.example_inputs
    shapes = [tuple(getattr(value, "shape", ())) for _, value in ports_of(like)[0]]
    if all(isinstance(extent, int) for shape in shapes for extent in shape):
        return torch.export.export(module, args)
    _, structure = _pytree.tree_flatten(args)
    known = _named(shapes, like.range_constraints)
    free = [[Dim.STATIC if isinstance(n, int) else known.get(n.node.expr, Dim.AUTO) for n in shape] for shape in shapes]
    try:
        return torch.export.export(module, args, dynamic_shapes=_pytree.tree_unflatten(free, structure))
    except torch._dynamo.exc.UserError:
        free = [[Dim.STATIC if isinstance(n, int) else Dim.AUTO for n in shape] for shape in shapes]
        return torch.export.export(module, args, dynamic_shapes=_pytree.tree_unflatten(free, structure))


def _named(shapes: Sequence[Sequence[Any]], ranges: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return symbol → dim with its range, so that an extent that may be 1 stays so: torch's own choice begins at 2."""
    from torch.export import Dim

    symbols = dict.fromkeys(n.node.expr for shape in shapes for n in shape if not isinstance(n, int))
    found: dict[Any, Any] = {}
    for symbol in symbols:
        limits = ranges.get(symbol)
        if limits is not None and symbol.is_Symbol:
            most = int(limits.upper) if getattr(limits.upper, "is_Integer", False) else None
            found[symbol] = Dim(f"free{len(found)}", min=max(int(limits.lower), 0), max=most)
    return found


def _refuse_quantised(program: Any) -> None:
    for node in program.graph.nodes:
        if getattr(node.target, "namespace", None) in _QUANTISERS:
            raise UnsupportedError("the model is quantised already: leave the precision away.")


def _refuse_narrow(program: Any) -> None:
    import torch

    for name, tensor in program.state_dict.items():
        if tensor.dtype in {torch.float16, torch.bfloat16}:
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise UnsupportedError(
                f"the quantiser takes float32 models, and {name!r} is {dtype}. Convert the model (module.float())."
            )
