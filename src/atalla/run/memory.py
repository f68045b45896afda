"""Memory: where the tensors of a program lie during a run, as torch's views of its spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atalla.blob.reader import Listing
from atalla.blob.rows import TensorRow
from atalla.dtypes import torch_dtype_of
from atalla.isa import Space
from atalla.isa.format import LINE

if TYPE_CHECKING:
    import torch


class Memory:
    """The spaces of a run: arena, state and constants, each as bytes; inputs and outputs are the caller's."""

    def __init__(self, listing: Listing, arena: torch.Tensor, state: torch.Tensor) -> None:
        """Keep the spaces; constants are copied."""
        import torch

        self._listing, self._arena, self._state = listing, arena, state
        self.constants = torch.frombuffer(bytearray(listing.sections[b"CNST"] or bytes(LINE)), dtype=torch.uint8)

    def reset(self) -> None:
        """Bring the state to what it is at first."""
        self._state.zero_()
        for to, at, size in self._listing.initial:
            self._state[to : to + size] = self.constants[at : at + size]

    def view(self, number: int, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """Return a tensor where it lies."""
        row = self._listing.tensors[number]
        root = self._listing.tensors[row.root]
        if root.space in {Space.INPUT, Space.OUTPUT}:
            given = (inputs if root.space is Space.INPUT else outputs)[root.place]
            assert given is not None, "an output that is written is a tensor"
            return _strided(given if row.dtype is root.dtype else given.view(torch_dtype_of(row.dtype)), row)
        space = {Space.ARENA: self._arena, Space.STATE: self._state}.get(root.space, self.constants)
        return _strided(typed(space, root.place, root.bytes, row), row)


def typed(space: torch.Tensor, place: int, size: int, row: TensorRow) -> torch.Tensor:
    """Return a storage as elements."""
    return space[place : place + size - size % row.dtype.size].view(torch_dtype_of(row.dtype))


def _strided(storage: torch.Tensor, row: TensorRow) -> torch.Tensor:
    """Return a view of a storage; torch has no strides below zero, so what goes backwards is a copy, only read."""
    backwards = [i for i, stride in enumerate(row.strides) if stride < 0]
    first = row.offset + sum((row.shape[i] - 1) * row.strides[i] for i in backwards)
    view = storage.as_strided(row.shape, [abs(stride) for stride in row.strides], storage.storage_offset() + first)
    return view.flip(backwards) if backwards else view
