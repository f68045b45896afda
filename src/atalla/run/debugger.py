"""Debugger: a run on the simulated device that stops where one likes, beside one of the kernels or of the reference."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from atalla.blob.reader import Listing, parse
from atalla.blob.specialize import specialize
from atalla.blob.verify_flow import written
from atalla.device.options import DeviceOptions
from atalla.device.simulation import Simulation
from atalla.errors import InputError
from atalla.isa import Space
from atalla.isa.format import LINE
from atalla.library import CTensor
from atalla.run import host
from atalla.run.interpreter import Interpreter
from atalla.run.kernels import Context, OpenBlob
from atalla.run.memory import Memory
from atalla.run.names import names_of
from atalla.run.runtime import align_to_line, laid_out, mismatch, view_of
from atalla.run.shaped import KernelProgram, TensorSpec, empty

if TYPE_CHECKING:
    import torch

    from atalla.isa.format import Bytes

CLOSE = 1e-3
"""Of its largest element, how far a result of floats may be from the reference, which rounds at other places."""


@dataclass(frozen=True)
class Difference:
    """Where a result is not what it should be."""

    instruction: int
    """Its number."""
    tensor: int
    """The number of the tensor that it wrote."""
    count: int
    """Elements that differ."""
    elements: int
    """Of the tensor."""
    index: tuple[int, ...]
    """Of the first of them."""
    found: Any
    """What the device has there."""
    wanted: Any
    """What should be there."""
    found_bits: str
    """The same in hexadecimal."""
    wanted_bits: str
    """The same in hexadecimal."""


class Debugger:
    """A program that has run up to some instruction; going elsewhere runs it again from its beginning."""

    def __init__(
        self,
        data: Bytes,
        inputs: Sequence[torch.Tensor],
        device: DeviceOptions,
        *,
        isa: str | None = None,
        against: str = "fast",
        trust: bool = False,
    ) -> None:
        """Prove that the blob is sound, and lay out the inputs.

        Args:
            data: the blob.
            inputs: of every run.
            device: on which it runs.
            isa: whose arithmetic the device and the kernels have.
            against: what is right: ``fast``, the kernels, bit by bit; or ``reference``, torch: whole numbers the same,
                floats close.
            trust: it may call any operator on the host.

        Raises:
            BlobError: it is none.
            InputError: it does not take these inputs, or has no instructions.
            KernelError: it does not fit into the device.
        """
        self._data = align_to_line(data)
        blob = OpenBlob(self._data, trust=trust)
        self.listing: Listing = parse(self._data)
        if len(self.listing.instructions) == 1:
            raise InputError("the program has no instructions: there is nothing to step through")
        if self.listing.symbols:
            shapes = [tuple(one.shape) for one in inputs]
            blob, self.listing = blob.specialize(shapes), parse(specialize(self.listing, shapes))
        self._device, self._isa, self._trust, self.against = device, isa, trust, against
        self._blob = blob
        self._run = _Run(self, device)
        self._inputs = self._laid_out(inputs)
        self._outputs = self._run.new_outputs()
        self.position = 0
        """So many instructions have run."""
        self.count = len(self.listing.instructions) - 1
        """Of instructions, without the END."""

    def _laid_out(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        forms = self._run.program.inputs
        if len(inputs) != len(forms):
            raise InputError(f"{len(inputs)} inputs instead of {len(forms)}")
        for i, (value, form) in enumerate(zip(inputs, forms, strict=True)):
            if fault := mismatch(value, form):
                raise InputError(f"input {i} ({self.listing.tensors[self.listing.inputs[i]].name}) {fault}")
        return [laid_out(value, form) for value, form in zip(inputs, forms, strict=True)]

    @property
    def isa(self) -> str:
        """The instruction set whose arithmetic the device has."""
        return self._run.program.context.isa

    @cached_property
    def simulation(self) -> Simulation:
        """What the whole program takes, with all events; it depends on no data."""
        options = DeviceOptions(self._device.hardware, dry=True, events=True)
        context = Context(self._blob, 1, self._isa, device=options)
        context.run([], [])
        found = context.simulation(names_of(self.listing))
        assert found is not None  # it has a device
        return found

    def written(self, number: int) -> tuple[int, ...]:
        """Return the tensors that an instruction writes."""
        return written(self.listing, self.listing.instructions[number])

    def go(self, position: int, *, compare: bool = False) -> Difference | None:
        """Run until so many instructions have run; with ``compare`` stop behind the first whose result is wrong.

        Returns:
            what is wrong with the result of the instruction before the new position; None where nothing is, or nobody
            compares. Only instructions that did not run before are compared.

        Raises:
            KernelError: an instruction failed.
        """
        before, found = self.position, None
        wanted = self._wanted if compare else {}

        def after(number: int) -> bool:
            nonlocal found
            self.position = number + 1
            if number >= before and number in wanted:
                found = self._difference(number, wanted[number])
            return found is not None or self.position >= position

        self.position = 0
        if position > 0:
            self._run.start(self._inputs, self._outputs, after)
        return found

    def tensor(self, number: int) -> torch.Tensor:
        """Return what a tensor holds now.

        Raises:
            InputError: there is no such tensor, its elements lie in panels, or nothing, or another tensor, is there.
        """
        if not 0 <= number < len(self.listing.tensors):
            raise InputError(f"there is no tensor {number}: there are 0 to {len(self.listing.tensors) - 1}")
        row = self.listing.tensors[number]
        if row.layout:
            raise InputError(f"tensor {number} is weights in the order {row.layout.name}")
        root = self.listing.tensors[row.root]
        if root.space in {Space.ARENA, Space.OUTPUT}:
            holder = self._holder(row.root)
            if holder is None:
                raise InputError(f"nothing has written tensor {number} yet")
            if holder[1] != row.root:
                raise InputError(f"the memory of tensor {number} is another's since instruction {holder[0]}")
        return self._run.memory.view(number, self._inputs, self._outputs)

    def _holder(self, number: int) -> tuple[int, int] | None:
        """Return the last instruction that wrote where a root lies, and into which root; None where none did."""
        root = self.listing.tensors[number]
        for i in reversed(range(self.position)):
            for one in self.written(i):
                place = self.listing.tensors[one].root
                other = self.listing.tensors[place]
                apart = other.place + other.bytes <= root.place or root.place + root.bytes <= other.place
                if place == number or (other.space is root.space is Space.ARENA and not apart):
                    return i, place
        return None

    @cached_property
    def _wanted(self) -> dict[int, list[torch.Tensor]]:
        """What each instruction should write."""
        import torch

        found: dict[int, list[torch.Tensor]] = {}
        outputs = self._run.new_outputs()

        def after(number: int) -> bool:
            views = (memory.view(one, self._inputs, outputs) for one in self.written(number))
            found[number] = [one.clone() for one in views]
            return False

        if self.against == "reference":
            interpreter = Interpreter(self.listing, self.invoke, after=after)
            memory = interpreter.memory
            with torch.no_grad():
                interpreter.run(self._inputs, outputs)
        else:
            run = _Run(self, None)
            memory = run.memory
            run.start(self._inputs, outputs, after)
        return found

    def _difference(self, number: int, wanted: Sequence[torch.Tensor]) -> Difference | None:
        import torch

        for tensor, right in zip(self.written(number), wanted, strict=True):
            given = self._run.memory.view(tensor, self._inputs, self._outputs)
            wrong = _differs(given, right, exact=self.against != "reference")
            count = int(wrong.sum())
            if count:
                index = tuple(torch.nonzero(wrong)[0].tolist())
                one, other = given[index], right[index]
                bits = (_bits(one), _bits(other))
                return Difference(number, tensor, count, given.numel(), index, one.item(), other.item(), *bits)
        return None

    def invoke(self, number: int, operands: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        """Run a call of the host."""
        row = self.listing.calls[number]
        host.invoke(row.target, row.arguments, operands, outputs, trust=self._trust)

    def program(self, device: DeviceOptions | None, state: int, after: Callable[[int], bool]) -> KernelProgram:
        """Return the program in a context of its own: on a device, or of the kernels."""

        def call(number: int, tensors: Sequence[CTensor], operands: int, outputs: int) -> None:
            views = [view_of(tensors[i]) for i in range(operands + outputs)]
            self.invoke(number, views[:operands], views[operands:])

        context = Context(self._blob, 1, self._isa, call, state=state, device=device, after=after)
        return KernelProgram(self._blob, context)


class _Run:
    """A context whose memory can be looked at."""

    def __init__(self, debugger: Debugger, device: DeviceOptions | None) -> None:
        import torch

        listing = debugger.listing
        self._after: Callable[[int], bool] = lambda _number: False
        state = torch.zeros(max(listing.state_bytes, LINE), dtype=torch.uint8)
        self.program = debugger.program(device, state.data_ptr(), self._look)
        size = max(listing.arena_bytes, LINE)
        arena = torch.frombuffer((ctypes.c_char * size).from_address(self.program.context.arena), dtype=torch.uint8)
        self.memory = Memory(listing, arena, state)

    def _look(self, number: int) -> bool:
        return self._after(number)

    def new_outputs(self) -> list[torch.Tensor | None]:
        """Return memory for outputs; None for one that is no tensor."""
        return [empty(one) if isinstance(one, TensorSpec) else None for one in self.program.outputs]

    def start(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor | None], after: Callable[[int], bool]
    ) -> None:
        """Run from the beginning, until ``after`` says that it is enough."""
        self._after = after
        self.memory.reset()
        self.program.bind(inputs, list(outputs))()


def _differs(found: torch.Tensor, wanted: torch.Tensor, *, exact: bool) -> torch.Tensor:
    """Return which elements differ: in their bits, or by more than is close."""
    import torch

    if exact or not found.is_floating_point():
        size = found.element_size()
        # A lone element may have any stride, and then torch shows no bytes of it.
        dense = (torch.empty(one.shape, dtype=one.dtype).copy_(one).reshape(-1) for one in (found, wanted))
        views = (one.view(torch.uint8).reshape(-1, size) for one in dense)
        return torch.ne(*views).any(1).reshape(found.shape)
    one, other = found.double(), wanted.double()
    largest = other[other.isfinite()].abs().max() if bool(other.isfinite().any()) else torch.zeros(())
    return ~torch.isclose(one, other, rtol=0, atol=float(CLOSE * largest), equal_nan=True)


def _bits(element: torch.Tensor) -> str:
    """Return the bytes of an element, the most significant first."""
    import torch

    return "0x" + bytes(element.reshape(1).view(torch.uint8).tolist())[::-1].hex()
