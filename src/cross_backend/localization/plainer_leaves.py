"""Plainer leaves: how the minimiser treats a program whose leaves hold values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from atalla.fuzz.graph import Graph, Leaf
from atalla.fuzz.minimize import as_input, with_leaf
from cross_backend.localization.given_leaf import DRAWN, ONES, GivenLeaf
from cross_backend.localization.text_values import values_of

if TYPE_CHECKING:
    import torch


class PlainerLeaves:
    """The fuzzer's means for leaves with values; see ``atalla.fuzz.minimize.Means``."""

    def values(self, graph: Graph) -> Mapping[str, torch.Tensor] | None:
        """Return the value of each leaf and node; None where eager torch does not run it."""
        return values_of(graph)

    def leaf_like(self, value: torch.Tensor, name: str, called: str) -> Leaf:  # noqa: ARG002  seeded ones need it
        """Return a leaf that holds the value of a node."""
        return GivenLeaf.of(called, value.contiguous())

    def plainer(self, graph: Graph) -> Iterator[Graph]:
        """Yield it with all leaves drawn or 1, then with one leaf written more plainly, or as an input."""
        for kind in (ONES, DRAWN):
            yield replace(graph, leaves=tuple(_as(leaf, kind) for leaf in graph.leaves))
        for leaf in graph.leaves:
            assert isinstance(leaf, GivenLeaf)
            for kind in leaf.plainer:
                yield with_leaf(graph, leaf, _as(leaf, kind))
            yield from as_input(graph, leaf)


def _as(leaf: Leaf, kind: str) -> Leaf:
    return replace(leaf, kind=kind) if isinstance(leaf, GivenLeaf) and kind in leaf.plainer else leaf
