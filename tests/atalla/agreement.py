"""Agreement: modules in one program, run by the reference and by every kernel of this processor, and by eager."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import atalla
from tests.atalla.native import OF_NARROW_PRODUCTS, sets_here

Case = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Together(nn.Module):
    """Modules side by side, each with inputs of its own."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(module for module, _ in cases)
        self.counts = [len(inputs) for _, inputs in cases]

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        left = iter(inputs)
        return [part(*itertools.islice(left, n)) for part, n in zip(self.parts, self.counts, strict=True)]


def compiled(cases: Sequence[Case]) -> tuple[atalla.Compiled, tuple[torch.Tensor, ...], list[torch.Tensor]]:
    """Compile them as one program; give it with its inputs, and with what eager gives."""
    module = Together(cases).eval()
    inputs = tuple(x for _, given in cases for x in given)
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(*inputs))
    return atalla.compile(torch.export.export(module, inputs)), inputs, wanted


def agree(cases: Sequence[Case], tolerance: float = 2e-5, *, bits: bool = False) -> atalla.Compiled:
    """See that no case needs the host, and that reference, kernels, threads and eager give the same.

    Args:
        cases: modules and their inputs.
        tolerance: by which eager may differ.
        bits: kernels give the reference's bits.
    """
    made, inputs, wanted = compiled(cases)
    assert not made.fallbacks, made.fallbacks
    golden = [one.clone() for one in atalla.load(made.data, isa="reference").run(inputs)]
    _same(golden, wanted, tolerance)
    for isa, threads in itertools.product(sorted(sets_here() - OF_NARROW_PRODUCTS), (1, 3)):
        loaded = atalla.load(made.data, isa=isa, threads=threads)
        for _ in range(2):  # what the first run left in memory changes nothing
            found = loaded.run(inputs)
            _same(found, wanted, tolerance)
            assert not bits or all(map(_equal, found, golden)), (isa, threads)
    return made


def _same(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], tolerance: float) -> None:
    assert len(found) == len(wanted)
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.dtype is other.dtype and one.shape == other.shape, number
        torch.testing.assert_close(
            one, other, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text, n=number: f"case {n}: {text}"
        )


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))
