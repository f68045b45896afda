"""Runtime: a blob that is loaded, and run with torch's tensors or NumPy's arrays."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atalla.blob.reader import Listing, parse
from atalla.blob.specialize import specialize
from atalla.blob.verify import verify
from atalla.device.options import DeviceOptions
from atalla.device.simulation import Simulation
from atalla.dims import reach
from atalla.dtypes import torch_dtype_of
from atalla.errors import InputError, ReferenceWarning
from atalla.isa import Dtype
from atalla.isa.format import LINE
from atalla.library import CTensor, library_path, were_built
from atalla.run import host, rtl
from atalla.run.kernels import Context, KernelHost, OpenBlob, pinned
from atalla.run.names import names_of
from atalla.run.pages import file_bytes, new_pages
from atalla.run.shaped import KernelProgram, ReferenceProgram, ShapedProgram, TensorSpec, empty

if TYPE_CHECKING:
    import torch

    from atalla.isa.format import Bytes


MOST_SHAPES = 8
"""So many shapes of inputs is a blob with symbols kept ready for; the one that was not used for longest goes."""


class Loaded:
    """A blob, ready to run, in one thread at a time: the others wait, so that each gets what it would get alone.

    Threads that shall run at once load the blob each for itself. The outputs of a bound call are overwritten by its
    next one, whichever thread makes it: where threads share a blob, each binds its own, or calls :meth:`run`.
    """

    def __init__(
        self,
        data: Bytes | str | os.PathLike[str],
        *,
        threads: int = 1,
        isa: str | None = None,
        profile: bool = False,
        verify_constants: bool = False,
        trust: bool = False,
        device: DeviceOptions | None = None,
    ) -> None:
        """Prove that the bytes are sound, and reserve the memory of a run; see :func:`atalla.load`."""
        if device is not None and isa == "reference":
            raise InputError("the reference runs on no device")
        if isa is None and device is None and not were_built():
            _warn_once()
            isa = "reference"
        self._data = file_bytes(data) if isinstance(data, str | os.PathLike) else data
        if isa != "reference":
            self._data = align_to_line(self._data)
        self._blob = None if isa == "reference" else OpenBlob(self._data, trust=trust)
        if self._blob is None:
            self.listing = verify(self._data, constants=verify_constants, trust=trust)
        elif verify_constants:
            self._blob.check_constants()
        self._threads, self._isa, self._profile, self._trust = threads, isa, profile, trust
        if device is not None and device.rtl:
            device = dataclasses.replace(device, unit=rtl.matrix_unit(self.listing, device.hardware))
        self._device = device
        self._lock = (
            threading.RLock()
        )  # an operator of the host that runs this blob is refused, and does not wait for ever
        self._state = _memory(self.listing.state_bytes if self._blob is None else self._blob.info.state_bytes)
        self._last: ShapedProgram = self._new_program(None)
        self._last.reset()
        self._shaped: dict[tuple[tuple[int, ...], ...], ShapedProgram] = {
            tuple(one.shape for one in self._last.inputs): self._last
        }

    @functools.cached_property
    def listing(self) -> Listing:
        """All that the blob says; for the sizes of the example where it runs with several."""
        return parse(self._data)

    def run(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """Run once; outputs are new tensors.

        Raises:
            InputError: inputs of another number, element type or shape.
            KernelError: an instruction failed.
        """
        return self.bind(inputs)()

    def bind(self, inputs: Sequence[torch.Tensor]) -> Callable[[], list[Any]]:
        """Check and lay out inputs now; return a call that does nothing but run, and return the outputs.

        The outputs of each call share memory with those of the call before.

        Raises:
            InputError: inputs of another number, element type or shape.
        """
        if len(inputs) != len(self._last.inputs):
            raise InputError(f"{len(inputs)} inputs instead of {len(self._last.inputs)}")
        with self._lock:
            shaped = self._last = self._program_for(inputs) if self._is_dynamic else self._last
        held = []
        for i, (value, form) in enumerate(zip(inputs, shaped.inputs, strict=True)):
            fault = mismatch(value, form)
            if fault:
                raise InputError(f"input {i} ({self._name(i)}) {fault}")
            held.append(laid_out(value, form))
        results = [empty(one) if isinstance(one, TensorSpec) else one for one in shaped.outputs]
        call, lock = shaped.bind(held, results), self._lock

        def locked_call() -> list[Any]:
            with lock:
                return call()

        return locked_call

    def reset(self) -> None:
        """Bring the buffers that the program changes back to what they are at first."""
        with self._lock:
            self._last.reset()

    def times_ns(self) -> list[int]:
        """Return the nanoseconds of each instruction in the last run of these shapes; the reference has none."""
        with self._lock:
            return self._last.context.times_ns() if isinstance(self._last, KernelProgram) else []

    @property
    def simulation(self) -> Simulation | None:
        """What the last run of these shapes took on the device; None where it ran on none."""
        with self._lock:
            if self._device is None or not isinstance(self._last, KernelProgram):
                return None
            return self._last.context.simulation(names_of(self.listing))

    @property
    def isa(self) -> str:
        """The instruction set that it uses, or ``reference``."""
        return self._last.context.isa if isinstance(self._last, KernelProgram) else "reference"

    @property
    def _is_dynamic(self) -> bool:
        return bool(self.listing.symbols if self._blob is None else self._blob.info.symbols)

    def _name(self, number: int) -> str:
        return self.listing.tensors[self.listing.inputs[number]].name

    def _program_for(self, inputs: Sequence[torch.Tensor]) -> ShapedProgram:
        """Return the program for these inputs' shapes, made now or before."""
        shapes = tuple(tuple(getattr(one, "shape", ())) for one in inputs)
        shaped = self._shaped.pop(shapes, None) or self._new_program(shapes)
        self._shaped[shapes] = shaped
        if len(self._shaped) > MOST_SHAPES:
            del self._shaped[next(iter(self._shaped))]
        return shaped

    def _new_program(self, shapes: Sequence[Sequence[int]] | None) -> ShapedProgram:
        if self._blob is None:
            listing = self.listing if shapes is None else verify(specialize(self.listing, shapes), trust=True)
            return ReferenceProgram(listing, self._invoke, self._state)
        blob = self._blob if shapes is None else self._blob.specialize(shapes)
        call, state = (self._call if blob.info.calls else None), self._state.data_ptr()
        return KernelProgram(blob, self._context(blob, call, state))

    def _context(self, blob: OpenBlob, call: KernelHost | None, state: int) -> Context:
        device = self._device
        return Context(blob, self._threads, self._isa, call, profile=self._profile, state=state, device=device)

    def _call(self, number: int, tensors: Any, operands: int, outputs: int) -> None:
        views = [view_of(tensors[i]) for i in range(operands + outputs)]
        self._invoke(number, views[:operands], views[operands:])

    def _invoke(self, number: int, operands: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        row = self.listing.calls[number]
        host.invoke(row.target, row.arguments, operands, outputs, trust=self._trust)


@functools.cache
def _warn_once() -> None:
    """Warn once in a process, at the line that called ``atalla.load``."""
    reason = f"the C kernels were not built ({library_path()}): the reference runs blobs, slowly"
    warnings.warn(f"{reason}; 'python -m atalla.build' builds them", ReferenceWarning, stacklevel=4)


def align_to_line(data: Bytes) -> Bytes:
    """Return bytes that begin at a line of the cache: loads of weights that straddle lines cost 5 % and more."""
    if not len(data) or (pinned(data)[1].value or 0) % LINE == 0:
        return data
    made = new_pages(len(data))
    made[:] = data
    return made


def _memory(size: int) -> torch.Tensor:
    import torch

    return torch.frombuffer(new_pages(max(size, LINE)), dtype=torch.uint8)


def mismatch(value: Any, form: TensorSpec) -> str | None:
    """Return how an input is not what the blob takes; None where it is."""
    import torch

    wanted = torch_dtype_of(form.dtype)
    if not isinstance(value, torch.Tensor) or value.dtype is not wanted:
        return f"is {value.dtype if isinstance(value, torch.Tensor) else type(value).__name__} instead of {wanted}"
    if tuple(value.shape) != form.shape:
        return f"has shape {list(value.shape)} instead of {list(form.shape)}"
    return f"is on {value.device}, not on the CPU" if value.device.type != "cpu" else None


def laid_out(value: torch.Tensor, form: TensorSpec) -> torch.Tensor:
    """Return an input as the blob wants it, copied only where it lies otherwise."""
    if value.stride() == form.strides and not value.is_conj() and not value.is_neg():
        return value.detach()
    return empty(form).copy_(value.detach())


def view_of(tensor: CTensor) -> torch.Tensor:
    """Return the memory of one of C's tensors."""
    import torch

    dtype = Dtype(tensor.dtype)
    shape, strides = tensor.shape[: tensor.rank], tensor.strides[: tensor.rank]
    ends = reach(0, shape, strides)
    if ends is None:
        return torch.empty(shape, dtype=torch_dtype_of(dtype))
    buffer = (ctypes.c_char * ((ends[1] + 1) * dtype.size)).from_address(tensor.data)
    return torch.frombuffer(buffer, dtype=torch_dtype_of(dtype)).as_strided(shape, strides)
