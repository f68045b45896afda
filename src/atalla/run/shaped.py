"""Shaped: a loaded program for inputs of certain shapes, by the kernels or by the reference.

``outputs`` holds a :class:`TensorSpec`, or the value of an output that is no tensor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from atalla.blob.reader import Listing
from atalla.blob.rows import value_of
from atalla.dtypes import torch_dtype_of
from atalla.isa import Dtype
from atalla.library import CTensor
from atalla.run.interpreter import Host, Interpreter
from atalla.run.kernels import Context, OpenBlob

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TensorSpec:
    """How a tensor of the caller is laid out."""

    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class KernelProgram:
    """By the kernels."""

    def __init__(self, blob: OpenBlob, context: Context) -> None:
        self.context = context
        self.inputs = [_form(one) for one in blob.inputs()]
        self.outputs = [_form(one) if isinstance(one, CTensor) else value_of(*one) for one in blob.outputs()]

    def bind(self, inputs: Sequence[torch.Tensor], results: list[Any]) -> Callable[[], list[Any]]:
        """Return a call that does nothing but run."""
        import torch

        addresses = [one.data_ptr() if isinstance(one, torch.Tensor) else None for one in results]
        given = (ctypes.c_void_p * max(len(inputs), 1))(*(one.data_ptr() for one in inputs))
        places = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        run = self.context.run_at

        def call() -> list[Any]:
            run(given, places)
            return results

        call.held = inputs  # type: ignore[attr-defined]  # as long as their addresses are used
        return call

    def reset(self) -> None:
        """Bring what is kept from run to run back to what it is at first."""
        self.context.reset()


class ReferenceProgram:
    """By the reference."""

    def __init__(self, listing: Listing, host: Host, state: torch.Tensor) -> None:
        specs = [TensorSpec(row.dtype, row.shape, row.strides) for row in listing.tensors]
        self.inputs = [specs[i] for i in listing.inputs]
        self.outputs = [specs[value] if kind == "tensor" else value for kind, value in listing.outputs]
        self._interpreter = Interpreter(listing, host, state)

    def bind(self, inputs: Sequence[torch.Tensor], results: list[Any]) -> Callable[[], list[Any]]:
        """Return a call that interprets."""
        import torch

        outputs = [one if isinstance(one, torch.Tensor) else None for one in results]

        def call() -> list[Any]:
            with torch.no_grad():
                self._interpreter.run(inputs, outputs)
            return results

        return call

    def reset(self) -> None:
        """Bring what is kept from run to run back to what it is at first."""
        self._interpreter.reset()


ShapedProgram: TypeAlias = KernelProgram | ReferenceProgram


def empty(form: TensorSpec) -> torch.Tensor:
    """Return memory for a tensor."""
    import torch

    return torch.empty_strided(form.shape, form.strides, dtype=torch_dtype_of(form.dtype))


def _form(tensor: CTensor) -> TensorSpec:
    return TensorSpec(Dtype(tensor.dtype), tuple(tensor.shape[: tensor.rank]), tuple(tensor.strides[: tensor.rank]))
