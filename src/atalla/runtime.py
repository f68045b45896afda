"""Runtime: a blob that is loaded, and run with torch's tensors or NumPy's arrays."""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atalla import host
from atalla.errors import InputError, ReferenceWarning
from atalla.interpreter import Interpreter
from atalla.kernels import Context, OpenBlob, Tensor, library_path, were_built
from atalla.loader import TensorRow, parse
from atalla.lower import torch_dtype_of
from atalla.verify import verify

if TYPE_CHECKING:
    import torch


class Loaded:
    """A blob, ready to run; not to be shared by threads: each loads its own."""

    def __init__(self, data: bytes, *, threads: int = 1, isa: str | None = None, profile: bool = False) -> None:
        """Prove that the bytes are sound, and reserve the memory of a run.

        ``isa="reference"`` runs every instruction in torch, slowly; so does None where there are no C kernels.

        Raises:
            BlobError: they are no sound blob.
            KernelError: not enough memory, an instruction set that this processor lacks, or a library that is broken.
        """
        if isa is None and not were_built():
            _say_that_it_is_slow()
            isa = "reference"
        if isa == "reference":
            verify(data)
        else:
            opened = OpenBlob(data)
        self.listing = parse(data)
        self._context = self._interpreter = None
        if isa == "reference":
            self._interpreter = Interpreter(data, self.listing, self._invoke)
        else:
            call = self._call if self.listing.calls else None
            self._context = Context(opened, threads, isa, call, profile=profile)
        self._inputs = [self.listing.tensors[number] for number in self.listing.inputs]

    def run(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """Run once; outputs are new tensors.

        Raises:
            InputError: inputs of another number, element type or shape.
            KernelError: an instruction failed.
        """
        return self.bind(inputs)()

    def bind(self, inputs: Sequence[torch.Tensor]) -> Callable[[], list[Any]]:
        """Check and lay out inputs now; give a call that does nothing but run and give the outputs.

        The outputs of each call share memory with those of the call before.

        Raises:
            InputError: inputs of another number, element type or shape.
        """
        import torch

        if len(inputs) != len(self._inputs):
            raise InputError(f"{len(inputs)} inputs instead of {len(self._inputs)}")
        held = [_laid_out(value, row, i) for i, (value, row) in enumerate(zip(inputs, self._inputs, strict=True))]
        results: list[Any] = []
        addresses: list[int | None] = []
        for kind, value in self.listing.outputs:
            if kind != "tensor":
                results.append(value)
                addresses.append(None)
                continue
            row = self.listing.tensors[value]
            made = torch.empty_strided(row.shape, row.strides, dtype=torch_dtype_of(row.dtype))
            results.append(made)
            addresses.append(made.data_ptr())
        if self._context is None:
            return self._slow(held, results)
        given = (ctypes.c_void_p * max(len(held), 1))(*(one.data_ptr() for one in held))
        places = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        run = self._context.run_at

        def call() -> list[Any]:
            run(given, places)
            return results

        call.held = held  # type: ignore[attr-defined]  # as long as their addresses are used
        return call

    def _slow(self, inputs: list[torch.Tensor], results: list[Any]) -> Callable[[], list[Any]]:
        import torch

        outputs = [one if isinstance(one, torch.Tensor) else None for one in results]
        assert self._interpreter is not None, "there is one or the other"
        run = self._interpreter.run

        def call() -> list[Any]:
            with torch.no_grad():
                run(inputs, outputs)
            return results

        return call

    def times_ns(self) -> list[int]:
        """Give the nanoseconds of each instruction in the last run; nothing of the reference."""
        return [] if self._context is None else self._context.times_ns()

    @property
    def isa(self) -> str:
        """The instruction set that it uses, or ``reference``."""
        return "reference" if self._context is None else self._context.isa

    def _call(self, number: int, tensors: Any, operands: int, outputs: int) -> None:
        views = [_view(tensors[i]) for i in range(operands + outputs)]
        self._invoke(number, views[:operands], views[operands:])

    def _invoke(self, number: int, operands: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        row = self.listing.calls[number]
        made = host.invoke(row.target, row.arguments, operands)
        for place, value in zip(outputs, made, strict=True):
            place.copy_(value)


@functools.cache
def _say_that_it_is_slow() -> None:
    """Warn once in a process, at the line that called ``atalla.load``."""
    reason = f"the C kernels were not built ({library_path()}): the reference runs blobs, slowly"
    warnings.warn(f"{reason}; 'python -m atalla.build' builds them", ReferenceWarning, stacklevel=4)


def _laid_out(value: torch.Tensor, row: TensorRow, number: int) -> torch.Tensor:
    """Give an input as the blob wants it, copied only where it lies otherwise."""
    import torch

    wanted = torch_dtype_of(row.dtype)
    if not isinstance(value, torch.Tensor) or value.dtype is not wanted:
        kind = str(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputError(f"input {number} ({row.name}) is {kind} instead of {wanted}")
    if tuple(value.shape) != row.shape:
        raise InputError(f"input {number} ({row.name}) has shape {list(value.shape)} instead of {list(row.shape)}")
    if value.device.type != "cpu":
        raise InputError(f"input {number} ({row.name}) is on {value.device}, not on the CPU")
    if value.stride() == row.strides and not value.is_conj() and not value.is_neg():
        return value.detach()
    return torch.empty_strided(row.shape, row.strides, dtype=wanted).copy_(value.detach())


def _view(tensor: Tensor) -> torch.Tensor:
    """Give the memory of one of C's tensors."""
    import torch

    from atalla.isa import Dtype

    dtype = Dtype(tensor.dtype)
    shape, strides = tensor.shape[: tensor.rank], tensor.strides[: tensor.rank]
    if any(extent == 0 for extent in shape):
        return torch.empty(shape, dtype=torch_dtype_of(dtype))
    reach = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    buffer = (ctypes.c_char * (reach * dtype.size)).from_address(tensor.data)
    return torch.frombuffer(buffer, dtype=torch_dtype_of(dtype), count=reach).as_strided(shape, strides)
