"""Flattening: a program of any structure becomes one of flat positional tensors; the structure is kept beside it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError, failing_as
from cross_backend.program.layout import laid_out
from cross_backend.structure import MAX_DEPTH, TENSOR, Node, Structure, constant, mapping, named_tuple, sequence
from cross_backend.tensors import to_numpy

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def flatten(program: ExportedProgram) -> ExportedProgram:
    """Return a program of flat positional tensors; constants among its inputs and outputs are left out.

    Raises:
        CaptureError: it takes or returns what cannot be shipped; names it and says what to do.
    """
    structure = structure_of(program)
    inputs, outputs = structure.arguments, structure.outputs
    in_spec = program.call_spec.in_spec
    plain_inputs = all(node is TENSOR for _, node in inputs) and not in_spec.child(1).num_children
    plain_outputs = outputs is TENSOR or (outputs.kind == "tuple" and all(part is TENSOR for _, part in outputs.parts))
    in_order = laid_out(program)
    if plain_inputs and plain_outputs and in_order is program:
        return program
    free = _free_extents(in_order)
    return _traced_again(in_order, free) if any(free.values()) or in_order is not program else _flat_program(program)


def distinct_outputs(program: ExportedProgram) -> tuple[ExportedProgram, list[int]]:
    """Return a program that returns no value twice, and which of its outputs each old one is."""
    from torch.utils import _pytree

    (end,) = program.graph.find_nodes(op="output")
    values = list(dict.fromkeys(end.args[0]))
    places = [values.index(value) for value in end.args[0]]
    if len(values) == len(places):
        return program, places
    module = copy.deepcopy(program.graph_module)
    signature = _renamed(program, module.graph)
    (end,) = module.graph.find_nodes(op="output")
    signature.output_specs = [signature.output_specs[places.index(i)] for i in range(len(values))]
    end.args = (tuple(dict.fromkeys(end.args[0])),)
    module.recompile()
    first, *others = program.module_call_graph
    call = replace(first.signature, out_spec=_pytree.tree_structure(tuple(range(len(signature.user_outputs)))))
    calls = [replace(first, signature=call), *others]
    return rebuilt(program, module, signature, calls, program.example_inputs), places


def with_graph(program: ExportedProgram, module: Any) -> ExportedProgram:
    """Return a program with a changed copy of its graph, node for node, and the same signature and state."""
    signature = _renamed(program, module.graph)
    return rebuilt(program, module, signature, program.module_call_graph, program.example_inputs)


def structure_of(program: ExportedProgram) -> Structure:
    """Read what a program takes and returns.

    Raises:
        CaptureError: that cannot be shipped; names it and says what to do.
    """
    in_spec, out_spec = program.call_spec
    args, kwargs = in_spec.children()
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    names = _argument_names(program, args.num_children, kwargs.context)
    given, made = iter(_user_inputs(program)), iter(_user_outputs(program))
    arguments = [
        (name, _node(spec, lambda where: _leaf(next(given), values, f"input {where}", _INPUT_REMEDY), name))
        for name, spec in zip(names, (*args.children(), *kwargs.children()), strict=True)
    ]
    outputs = _node(out_spec, lambda where: _leaf(next(made), values, f"output{where}", _OUTPUT_REMEDY), "")
    if not outputs.count:
        raise CaptureError("the model returns no tensor; return one.")
    return Structure(tuple(arguments), outputs)


def flat_call(module: Any, program: ExportedProgram, *, any_constants: bool = False) -> Callable[..., tuple[Any, ...]]:
    """Return a function of flat tensors that calls the module with the structure in which the program was captured.

    Args:
        module: what was captured.
        program: as torch captured it.
        any_constants: whether what is no tensor among the outputs may be another than in the program.
    """
    from torch.utils import _pytree

    inputs, outputs = _user_inputs(program), _user_outputs(program)

    def call(*tensors: Any) -> tuple[Any, ...]:
        given = iter(tensors)
        leaves = [next(given) if _is_tensor(arg) else arg.value for arg in inputs]
        args, kwargs = _pytree.tree_unflatten(leaves, program.call_spec.in_spec)
        made = _pytree.tree_leaves(module(*args, **kwargs))
        kept = [leaf for leaf, arg in zip(made, outputs, strict=False) if _is_tensor(arg)]
        if len(made) != len(outputs) or not (any_constants or _same_constants(made, outputs)):
            raise CaptureError(
                "the model returns other values beside tensors than when it was captured, so it depends on more than "
                "its inputs. Make it a pure function."
            )
        return tuple(kept)

    return call


def flat_tensors(program: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the tensors among a module's arguments, in the order in which a program takes them."""
    from torch.utils import _pytree

    names = program.call_spec.in_spec.child(1).context
    leaves = _pytree.tree_leaves((tuple(args), [kwargs[name] for name in names]))
    return tuple(leaf for leaf, arg in zip(leaves, _user_inputs(program), strict=True) if _is_tensor(arg))


_INPUT_REMEDY = "give it a float32 tensor and convert inside of the model"
_OUTPUT_REMEDY = "convert it to float32 inside of the model"


def _same_constants(made: Sequence[Any], outputs: Sequence[Any]) -> bool:
    pairs = zip(made, outputs, strict=True)
    return all(not hasattr(leaf, "shape") and leaf == arg.value for leaf, arg in pairs if not _is_tensor(arg))


def _is_tensor(arg: Any) -> bool:
    from torch.export.graph_signature import TensorArgument

    return isinstance(arg, TensorArgument)


def _user_inputs(program: ExportedProgram) -> list[Any]:
    from torch.export.graph_signature import InputKind

    return [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]


def _user_outputs(program: ExportedProgram) -> list[Any]:
    from torch.export.graph_signature import OutputKind

    return [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]


def _argument_names(program: ExportedProgram, positional: int, keywords: Sequence[str]) -> list[str]:
    """Return the names of the parameters that were given; torch knows them, but for programs of older versions."""
    known = program.module_call_graph[0].signature.forward_arg_names or []
    if len(known) != positional + len(keywords):
        known = [f"argument_{index}" for index in range(positional)]
    return [*known[:positional], *keywords]


def _leaf(arg: Any, values: Mapping[str, Any], where: str, remedy: str) -> Node:
    """Return the node of one input or output of the program."""
    import torch
    from torch.export.graph_signature import ConstantArgument

    if isinstance(arg, ConstantArgument):
        try:
            return constant(arg.value)
        except ValueError as error:
            raise CaptureError(f"{where} cannot be kept: {error}; leave it out, or make it a tensor.") from error
    value = values.get(arg.name)
    if not _is_tensor(arg) or not isinstance(value, torch.Tensor):
        raise CaptureError(
            f"{where} is no tensor but a number that the sizes of the inputs decide; leave it out, or make it a tensor."
        )
    if not _numpy_has(value.dtype):
        name = str(value.dtype).removeprefix("torch.")
        raise CaptureError(f"{where} is {name}, which NumPy lacks; {remedy}.")
    return TENSOR


def _numpy_has(dtype: Any) -> bool:
    """Whether NumPy has a torch type, or ``ml_dtypes`` for it."""
    import torch

    try:
        to_numpy(torch.empty(0, dtype=dtype))
    except TypeError:
        return False
    return True


def _node(spec: Any, leaf: Callable[[str], Node], where: str, depth: int = 0) -> Node:
    """Read torch's description of a structure; ``leaf`` is asked for each of its leaves, in order."""
    if spec.is_leaf():
        return leaf(where)
    if depth > MAX_DEPTH:
        raise CaptureError(f"{where} is nested more than {MAX_DEPTH} deep.")
    kind, name, keys = _kind(spec, where or "the output")
    parts = [
        _node(child, leaf, f"{where}[{key!r}]", depth + 1) for key, child in zip(keys, spec.children(), strict=True)
    ]
    try:
        if kind == "dict":
            return mapping(list(zip(keys, parts, strict=True)))
        return named_tuple(name, list(zip(keys, parts, strict=True))) if kind == "named" else sequence(kind, parts)
    except (ValueError, TypeError) as error:
        raise CaptureError(f"{where or 'the output'} cannot be kept: {error}; make it a plain dict.") from error


def _kind(spec: Any, where: str) -> tuple[Any, str, list[Any]]:
    """Return the kind of a container, its name, and the keys of what it holds; an object with attributes is a dict.

    torch describes a container by a type and a text of that type's own, so one is made, of nothing, and looked at.
    """
    from torch.utils import _pytree

    rules = _pytree.SUPPORTED_NODES[spec.type]
    try:
        example = rules.unflatten_fn([object() for _ in range(spec.num_children)], spec.context)
        found = [key for key, _ in rules.flatten_with_keys_fn(example)[0]]  # type: ignore[misc]
    except Exception as error:
        name = getattr(spec.type, "__name__", str(spec.type))
        raise CaptureError(f"{where} is a {name}, whose parts have no names; make it a plain dict.") from error
    fields = getattr(type(example), "_fields", getattr(type(example), "__match_args__", ()))
    if isinstance(example, tuple) and len(fields) == len(found) > 0:
        return "named", type(example).__name__, list(fields)
    if all(isinstance(key, _pytree.SequenceKey) for key in found) and not isinstance(example, dict):
        return "tuple" if isinstance(example, tuple) else "list", "", list(range(len(found)))
    return "dict", "", [getattr(key, "key", getattr(key, "name", None)) for key in found]


def _free_extents(program: ExportedProgram) -> dict[str, list[int]]:
    """Return the dimensions of each user input that are free, by its name."""
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    shapes = {arg.name: values[arg.name].shape for arg in _user_inputs(program) if _is_tensor(arg)}
    return {name: [i for i, n in enumerate(shape) if not isinstance(n, int)] for name, shape in shapes.items()}


def _traced_again(program: ExportedProgram, free: Mapping[str, list[int]]) -> ExportedProgram:
    """Capture a program of free extents again, called with flat tensors.

    torch writes what it knows of the extents in terms of the arguments' names and structure, and reads it whenever it
    makes a module of the program, so that changing those is not enough.

    Raises:
        CaptureError: it has no example inputs, or an extent is free no more.
    """
    import inspect

    import torch

    if program.example_inputs is None:
        raise CaptureError(
            "the program holds no example inputs; export it again with torch.export.export(module, inputs)."
        )
    inner = program.module()
    call = flat_call(inner, program)

    def forward(*tensors: Any) -> tuple[Any, ...]:
        return call(*tensors)

    names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in free]
    forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    module = torch.nn.Module()
    module.add_module("inner", inner)
    module.forward = forward
    shapes = tuple(dict.fromkeys(extents, torch.export.Dim.AUTO) for extents in free.values())
    with failing_as(CaptureError, "torch.export cannot capture the program with flat tensors"), torch.no_grad():
        flat = torch.export.export(module, flat_tensors(program, *program.example_inputs), dynamic_shapes=shapes)
    if list(_free_extents(flat).values()) != list(free.values()):
        raise CaptureError("an extent is free only where the model is called with its own structure; flatten it.")
    return flat


def _renamed(program: ExportedProgram, copied: Any) -> Any:
    """Return the signature of a copied graph, in which nodes named as Python's builtins got other names."""
    from torch.export.graph_signature import ConstantArgument

    signature = copy.deepcopy(program.graph_signature)
    names = {old.name: new.name for old, new in zip(program.graph.nodes, copied.nodes, strict=True)}
    for spec in (*signature.input_specs, *signature.output_specs):
        if not isinstance(spec.arg, ConstantArgument) or spec.arg.name in names:
            spec.arg = replace(spec.arg, name=names[spec.arg.name])
    return signature


def _flat_program(program: ExportedProgram) -> ExportedProgram:
    """Make a program of flat tensors, without the constants among its inputs and outputs."""
    from torch.export.graph_signature import ConstantArgument, ExportGraphSignature, InputKind, OutputKind

    module = copy.deepcopy(program.graph_module)
    graph, signature = module.graph, _renamed(program, module.graph)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    input_specs = []
    for node, given in zip(placeholders, signature.input_specs, strict=True):
        if given.kind == InputKind.USER_INPUT and isinstance(given.arg, ConstantArgument):
            graph.erase_node(node)
        else:
            input_specs.append(given)
    (end,) = graph.find_nodes(op="output")
    made = [
        (value, spec)
        for value, spec in zip(end.args[0], signature.output_specs, strict=True)
        if spec.kind != OutputKind.USER_OUTPUT or not isinstance(spec.arg, ConstantArgument)
    ]
    end.args = (tuple(value for value, _ in made),)
    module.recompile()
    flat = ExportGraphSignature(input_specs, [spec for _, spec in made])
    examples = program.example_inputs
    given = (flat_tensors(program, *examples), {}) if examples else None
    return rebuilt(program, module, flat, flat_calls(program, flat), given)


def flat_calls(program: ExportedProgram, signature: Any) -> list[Any]:
    """Return how a program's module and those in it are called, where its signature becomes one of flat tensors."""
    from torch.export import ModuleCallEntry

    first, *others = program.module_call_graph
    return [ModuleCallEntry(first.fqn, flat_call_of(signature)), *(replace(one, signature=None) for one in others)]


def flat_call_of(signature: Any) -> Any:
    """Return how a module is called that takes and returns the tensors of a signature, flat."""
    from torch.export import ModuleCallSignature
    from torch.utils import _pytree

    names = [str(name) for name in signature.user_inputs]
    return ModuleCallSignature(
        inputs=[],
        outputs=[],
        in_spec=_pytree.tree_structure((tuple(names), {})),
        out_spec=_pytree.tree_structure(tuple(range(len(signature.user_outputs)))),
        forward_arg_names=names,
    )


def rebuilt(
    program: ExportedProgram, module: Any, signature: Any, calls: Any, examples: Any, without: Collection[str] = ()
) -> ExportedProgram:
    """Return a program with another graph, and the state of the old one ``without`` the tensors of some names."""
    from torch.export import ExportedProgram

    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict={name: value for name, value in program.state_dict.items() if name not in without},
        range_constraints=program.range_constraints,
        module_call_graph=calls,
        example_inputs=examples,
        constants={name: value for name, value in program.constants.items() if name not in without},
        verifiers=program.verifiers,
    )
