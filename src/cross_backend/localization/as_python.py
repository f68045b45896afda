"""As Python: a captured program written as torch code that a reader knows, and that torch exports as the same graph.

An operator of ATen becomes a call of ``torch.nn.functional``, ``torch`` or a method, where that computes the same on
the program's own values and is exported as the same operator. Others keep their name, ``torch.ops.aten.…``.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atalla.fuzz.graph import Graph, Leaf, Node
from cross_backend.errors import UnsupportedError
from cross_backend.localization.given_leaf import GivenLeaf
from cross_backend.localization.text_values import built, called

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

MOST_ROUNDS = 12
"""Exports until the text is exported as the graph that it was made of."""
_RESIZED = {"nearest1d": "nearest", "nearest2d": "nearest", "nearest3d": "nearest", "linear1d": "linear"}
_RESIZED |= {"bilinear2d": "bilinear", "bicubic2d": "bicubic", "trilinear3d": "trilinear"}
"""``upsample_…`` → mode of ``interpolate``."""
_IMPLIED = {"device", "pin_memory", "layout"}
"""Arguments of operators that make tensors, which say nothing on one processor."""


def written(program: ExportedProgram, inputs: Sequence[torch.Tensor]) -> Graph:
    """Return a program as text.

    Args:
        program: flat; with free extents, those of the inputs are taken.
        inputs: one a user input; they are held by the text, as weights are.

    Raises:
        UnsupportedError: it has control flow beside ``torch.cond``, or what is no operator.
    """
    import torch

    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    if any(not isinstance(n, int) for node in nodes for n in getattr(node.meta.get("val"), "shape", ())):
        program = torch.export.export(program.module(check_guards=False), tuple(inputs))
    leaves, values = _leaves(program, inputs)
    with torch.no_grad():
        writer = _Writer(program.graph_module)
        outputs = writer.write(program.graph, values)
    (end,) = program.graph.find_nodes(op="output")
    count = len(program.graph_signature.user_outputs)
    names = tuple(outputs[len(end.args[0]) - count :])
    return _exported_alike(writer, lambda nodes: Graph(leaves, nodes, names, functions=tuple(writer.functions)))


def _leaves(program: ExportedProgram, inputs: Sequence[torch.Tensor]) -> tuple[tuple[Leaf, ...], dict[Any, Any]]:
    """Return the leaves, and the node of each → its name and value."""
    signature = program.graph_signature
    held = {**signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    waiting, leaves, values = list(inputs), [], {}
    for number, node in enumerate(program.graph.find_nodes(op="placeholder")):
        if node.name in signature.inputs_to_parameters:
            name, value = f"p{number}", program.state_dict[signature.inputs_to_parameters[node.name]]
        elif node.name in held:
            key = held[node.name]
            name, value = f"c{number}", program.state_dict.get(key, program.constants.get(key))
        else:
            name, value = f"x{number}", waiting.pop(0)
        values[node] = (name, value.detach().clone())
        if node.users:
            leaves.append(GivenLeaf.of(name, value))
    return tuple(leaves), values


def _exported_alike(writer: _Writer, make: Any) -> Graph:
    """Return the text with the forms that are exported as the operators they stand for."""
    wanted = [name for name, _, _ in writer.lines if name]
    for _ in range(MOST_ROUNDS):
        graph: Graph = make(tuple(Node(name, forms[0]) for _, name, forms in writer.lines))
        found: list[str] = []
        with contextlib.suppress(Exception):  # a form that cannot be exported is none
            found = _exported(graph)
        if found == wanted:
            return graph
        lines = [line for line in writer.lines if line[0]]
        at = next((i for i, name in enumerate(wanted) if i >= len(found) or found[i] != name), 0)
        others = [line for line in (lines[at], *lines) if len(line[2]) > 1]
        if not others:
            break
        others[0][2].pop(0)
    return make(tuple(Node(name, forms[-1]) for _, name, forms in writer.lines))  # type: ignore[no-any-return]


def _exported(graph: Graph) -> list[str]:
    import torch

    program = torch.export.export(*built(graph))
    return [str(node.target) for node in program.graph.nodes if _is_told(node)]


def _is_told(node: Any) -> bool:
    """Whether a node computes something; checks of types and sizes do not."""
    is_check = str(node.target).startswith(("aten._assert", "aten.sym_constrain"))
    return node.op == "call_function" and node.target is not operator.getitem and not is_check


class _Writer:
    """Writes graphs: lines of the program, and functions for branches."""

    def __init__(self, module: Any) -> None:
        self.lines: list[tuple[str, str, list[str]]] = []
        """Operator, empty for a part of a result; name; forms, the one a reader knows first."""
        self.functions: list[str] = []
        self._module = module

    def write(self, graph: Any, values: Mapping[Any, tuple[str, Any]]) -> list[str]:
        """Write a program's lines, and return the names of what it returns."""
        lines, outputs = self._written(graph, self._module, dict(values), "v")
        self.lines = lines
        return outputs

    def _written(
        self, graph: Any, module: Any, known: dict[Any, tuple[str, Any]], letter: str
    ) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
        lines: list[tuple[str, str, list[str]]] = []
        for node in graph.nodes:
            if node.op == "get_attr":
                known[node] = (node.target, getattr(module, node.target))
            elif node.op == "call_function" and (_is_told(node) or node.target is operator.getitem):
                name = f"{letter}{len(lines)}"
                forms, value = self._forms(node, known)
                known[node] = (name, value)
                lines.append((str(node.target) if _is_told(node) else "", name, forms))
        (end,) = graph.find_nodes(op="output")
        return lines, [known[one][0] if one in known else repr(one) for one in end.args[0]]

    def _forms(self, node: Any, known: dict[Any, tuple[str, Any]]) -> tuple[list[str], Any]:
        """Return how a call may be written, and its value."""
        import torch
        from torch.utils._pytree import tree_map

        if node.target is operator.getitem:
            source, number = node.args
            return [f"{known[source][0]}[{number}]"], known[source][1][number]
        if str(node.target) == "cond":
            return self._condition(node, known)
        if not isinstance(node.target, torch._ops.OpOverload):  # noqa: SLF001  torch's only name for it
            raise UnsupportedError(f"{node.target} cannot be written as Python that runs by itself.")

        def value(one: Any) -> Any:
            return known[one][1] if one in known else one

        args, kwargs = (tree_map(value, one, is_leaf=_is_node) for one in (list(node.args), dict(node.kwargs)))
        result = node.target(*args, **kwargs)
        names = {known[one][0]: known[one][1] for one in node.all_input_nodes}
        texts = [_text(one, known) for one in node.args]
        keywords = {key: _text(one, known) for key, one in node.kwargs.items()}
        forms = [form for form in _candidates(node.target, texts, keywords) if _computes(form, names, result)]
        plain = _call(f"torch.ops.{node.target}", texts, keywords)
        return [*forms, plain], result

    def _condition(self, node: Any, known: dict[Any, tuple[str, Any]]) -> tuple[list[str], Any]:
        """Write both branches as functions, and return the call."""
        chosen, yes, no, operands = node.args
        names, results = [], []
        for branch in (yes, no):
            module = known[branch][1]
            inner: dict[Any, tuple[str, Any]] = {}
            for number, (place, one) in enumerate(
                zip(module.graph.find_nodes(op="placeholder"), operands, strict=True)
            ):
                inner[place] = (f"a{number}", known[one][1])
            lines, outputs = self._written(module.graph, module, inner, "b")
            name = f"branch{len(self.functions)}"
            body = [f"    {name} = {forms[0]}" for _, name, forms in lines]
            ends = f"    return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})"
            self.functions.append(
                "\n".join(
                    [f"def {name}({', '.join(text for text, _ in inner.values() if text[0] == 'a')}):", *body, ends]
                )
            )
            names.append(name)
            (end,) = module.graph.find_nodes(op="output")
            results.append(tuple(inner[one][1] for one in end.args[0]))
        given = ", ".join(known[one][0] for one in operands)
        text = f"torch.cond({known[chosen][0]}, {names[0]}, {names[1]}, ({given}{',' if len(operands) == 1 else ''}))"
        return [text], results[0 if bool(known[chosen][1]) else 1]


def _is_node(one: Any) -> bool:
    import torch

    return isinstance(one, torch.fx.Node)


def _text(one: Any, known: Mapping[Any, tuple[str, Any]]) -> str:
    """Return an argument as Python."""
    import torch

    if _is_node(one):
        return known[one][0]
    if isinstance(one, list | tuple):
        return f"[{', '.join(_text(part, known) for part in one)}]"
    if isinstance(one, float) and not math.isfinite(one):
        return f'float("{one}")'
    return f'"{one}"' if isinstance(one, torch.device) else repr(one) if isinstance(one, str) else str(one)


def _call(function: str, texts: Sequence[str], keywords: Mapping[str, str]) -> str:
    return f"{function}({', '.join([*texts, *(f'{key}={text}' for key, text in keywords.items())])})"


def _candidates(target: Any, texts: Sequence[str], keywords: Mapping[str, str]) -> Iterator[str]:
    """Yield calls that may stand for an operator, those that a reader knows best first."""
    import torch

    namespace, _, rest = str(target).partition(".")
    name, _, overload = rest.partition(".")
    if namespace != "aten" or name.startswith("_") or name.endswith("_"):
        return
    plain = {key: text for key, text in keywords.items() if key not in _IMPLIED}
    if name.startswith("upsample_") and overload == "vec":
        yield _resized(name.removeprefix("upsample_"), texts)
        return
    for function in (torch.nn.functional, torch):
        if callable(getattr(function, name, None)):
            yield _call(f"{function.__name__}.{name}", texts, plain)
    if texts and callable(getattr(torch.Tensor, name, None)):
        yield _call(f"{texts[0]}.{name}", texts[1:], plain)


def _resized(kind: str, texts: Sequence[str]) -> str:
    """Return ``interpolate``; the operator takes input, size, whether corners align where it has some, and factors."""
    source, size, *corners, factors = texts
    given = [f"{key}={text}" for key, text in (("size", size), ("scale_factor", factors)) if text != "None"]
    given.append(f'mode="{_RESIZED.get(kind, kind)}"')
    given += [f"align_corners={text}" for text in corners if text == "True"]
    return f"torch.nn.functional.interpolate({', '.join([source, *given])})"


def _computes(text: str, names: Mapping[str, Any], wanted: Any) -> bool:
    """Whether a call returns the very same."""
    import torch
    from torch.utils._pytree import tree_leaves

    try:
        found = tree_leaves(called(text, names))
    except Exception:  # whatever a call with arguments of another order leads to
        return False
    other = tree_leaves(wanted)
    return len(found) == len(other) and all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(a.isnan(), b.isnan())
        and torch.equal(a.nan_to_num(), b.nan_to_num())
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        else a == b
        for a, b in zip(found, other, strict=True)
    )
