"""Text values: what a program that is Python text computes in eager torch."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atalla.fuzz.graph import Graph, inputs_source, module_source
from atalla.fuzz.values import rand

if TYPE_CHECKING:
    import torch


def called(text: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression of a program."""
    return eval(text, _space() | dict(names))  # noqa: S307  the text was written here, of a graph


def built(graph: Graph) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return a program's module and its inputs."""
    names = _space()
    exec(module_source(graph), names)  # noqa: S102  as above
    return names["Model"]().eval(), eval(inputs_source(graph), names)  # noqa: S307


def values_of(graph: Graph) -> Mapping[str, torch.Tensor] | None:
    """Return the value of each leaf and node; None where eager torch does not run it."""
    import torch

    names = _space()
    try:
        for source in graph.functions:
            exec(source, names)  # noqa: S102
        found = {leaf.name: eval(leaf.source, names) for leaf in graph.leaves}  # noqa: S307
        with torch.no_grad():
            for node in graph.nodes:
                found[node.name] = eval(node.call, names | found)  # noqa: S307
    except Exception:  # a candidate may be anything
        return None
    return found


def _space() -> dict[str, Any]:
    import torch

    return {"torch": torch, "rand": rand, "base64": base64, "zlib": zlib}
