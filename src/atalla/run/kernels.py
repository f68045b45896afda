"""Kernels: a blob and a context of the C library; what the library says becomes this package's errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from atalla.blob.verify import verify
from atalla.device.options import DeviceOptions
from atalla.device.simulation import Named, Simulation, read_simulation
from atalla.device.structures import MATMUL, CMatrixUnit
from atalla.errors import BlobError, InputError, KernelError
from atalla.isa import OutputKind, Verdict
from atalla.isa.format import Bytes
from atalla.library import AFTER, BAD_SHAPE, HOST, CInfo, COptions, CTensor, library, new_error

KernelHost = Callable[[int, Any, int, int], None]
"""Called with the number of a call, an array of :class:`CTensor`, and how many operands and outputs are in it."""
After = Callable[[int], bool]
"""Called after each instruction with its number; the run ends there if it says so."""


class OpenBlob:
    """A blob that the C loader found sound."""

    def __init__(
        self,
        data: Bytes,
        shapes: Sequence[Sequence[int]] | None = None,
        whole: OpenBlob | None = None,
        *,
        trust: bool = False,
    ) -> None:
        """Open it; the bytes are kept as long as this object.

        Args:
            data: the bytes.
            shapes: of the inputs, if it shall be another blob's program for these.
            whole: that other blob, of the same bytes.
            trust: it may call any operator on the host.

        Raises:
            BlobError: they are no sound blob, or the program is not sound for these shapes.
            InputError: the program does not take these shapes.
        """
        self.handle = ctypes.c_void_p()
        self._free = library().atalla_close  # that of the library which opens it
        self.data = data
        if whole is None or shapes is None:
            self._held, address = pinned(data)
            function = "atalla_open_trusted" if trust else "atalla_open"
            self._open(function, address, ctypes.c_size_t(len(data)))
        else:
            self._held = whole
            rows = (CTensor * max(len(shapes), 1))()
            for row, shape in zip(rows, shapes, strict=False):
                row.rank, row.shape = len(shape), (ctypes.c_int64 * max(len(shape), 1))(*shape)
            self._open("atalla_specialize", whole.handle, rows, ctypes.c_size_t(len(shapes)))

    def _open(self, function: str, *arguments: Any) -> None:
        error = new_error()
        status = getattr(library(), function)(*arguments, ctypes.byref(self.handle), ctypes.byref(error))
        if status:
            text = error.text.decode(errors="replace")
            if status == BAD_SHAPE:
                raise InputError(text)
            if status == Verdict.HOST:
                verify(self.data)  # which says what operator it is
            name = Verdict(status).name if status in list(Verdict) else str(status)
            raise BlobError(status, f"no sound blob: {text or name}")
        self.info = CInfo(struct_size=ctypes.sizeof(CInfo))
        library().atalla_describe(self.handle, ctypes.byref(self.info))

    def specialize(self, shapes: Sequence[Sequence[int]]) -> OpenBlob:
        """Return the same program for inputs of these shapes.

        Raises:
            InputError: it does not take them.
            BlobError: it is not sound for them.
        """
        return OpenBlob(self.data, shapes, self)

    def check_constants(self) -> None:
        """Compare the constants with their checksum.

        Raises:
            BlobError: they are others.
        """
        if library().atalla_check_constants(self.handle):
            raise BlobError(Verdict.CHECKSUM, "no sound blob: its constants are damaged: their checksum is wrong")

    def inputs(self) -> list[CTensor]:
        """Return how inputs are laid out, without data."""
        return [self._described("atalla_describe_input", i) for i in range(self.info.inputs)]

    def outputs(self) -> list[CTensor | tuple[OutputKind, int]]:
        """Return how outputs are laid out; of one that is no tensor its kind and its bits."""
        found: list[CTensor | tuple[OutputKind, int]] = []
        for i in range(self.info.outputs):
            kind, value = ctypes.c_uint32(), ctypes.c_int64()
            library().atalla_describe_value(self.handle, ctypes.c_uint32(i), ctypes.byref(kind), ctypes.byref(value))
            found.append(
                (OutputKind(kind.value), value.value) if kind.value else self._described("atalla_describe_output", i)
            )
        return found

    def _described(self, function: str, number: int) -> CTensor:
        tensor = CTensor(struct_size=ctypes.sizeof(CTensor))
        getattr(library(), function)(self.handle, ctypes.c_uint32(number), ctypes.byref(tensor))
        return tensor

    def __del__(self) -> None:
        """Free it."""
        if getattr(self, "handle", None):
            self._free(self.handle)


def pinned(data: Bytes) -> tuple[object, ctypes.c_void_p]:
    """Return what keeps bytes where they are, and where that is; those that cannot be pointed at are copied."""
    if isinstance(data, memoryview) and data.readonly:
        data = bytes(data)
    if isinstance(data, bytes):
        return data, ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
    if not data:
        return b"", ctypes.cast(ctypes.c_char_p(b""), ctypes.c_void_p)
    held = (ctypes.c_char * len(data)).from_buffer(data)
    return held, ctypes.c_void_p(ctypes.addressof(held))


def _unit(device: DeviceOptions) -> CMatrixUnit:
    """Return the matrix unit as C takes it."""
    made, unit = CMatrixUnit(struct_size=ctypes.sizeof(CMatrixUnit)), device.unit
    if unit is not None and unit.int8 is not None:
        made.int8, made.int8_unit = ctypes.cast(unit.int8, MATMUL), unit.int8_unit  # type: ignore[arg-type]  # any of ctypes'
    if unit is not None and unit.bf16 is not None:
        made.bf16, made.bf16_unit = ctypes.cast(unit.bf16, MATMUL), unit.bf16_unit  # type: ignore[arg-type]  # likewise
    return made


class Context:
    """What one thread needs to run a blob."""

    def __init__(
        self,
        blob: OpenBlob,
        threads: int = 1,
        isa: str | None = None,
        host: KernelHost | None = None,
        *,
        profile: bool = False,
        state: int | None = None,
        device: DeviceOptions | None = None,
        after: After | None = None,
    ) -> None:
        """Reserve memory and start threads; ``state`` is the address of what is kept from run to run.

        Raises:
            KernelError: not enough memory, an instruction set that this processor lacks, or a program that does not fit
                into the device.
        """
        self._blob = blob
        self._device = device
        self._failure: Exception | None = None
        self._host = HOST(self._guarded(host)) if host else HOST()
        self._after = AFTER(self._guarded(after)) if after else AFTER()
        options = COptions(
            struct_size=ctypes.sizeof(COptions),
            threads=threads,
            isa=isa.encode() if isa else None,
            host=self._host,
            profile=int(profile),
            state=state,
            after=self._after,
        )
        if device is not None:
            self._structures = (device.hardware.structure(), _unit(device))  # as long as C may look at them
            options.hardware = ctypes.addressof(self._structures[0])
            options.unit = ctypes.addressof(self._structures[1])
            options.device_flags = device.flags
        self._handle = ctypes.c_void_p()
        self._free = library().atalla_context_free  # that of the library which makes it
        error = new_error()
        status = library().atalla_context_new(
            blob.handle, ctypes.byref(options), ctypes.byref(self._handle), ctypes.byref(error)
        )
        if status:
            raise KernelError(status, error.text.decode(errors="replace"))

    def _guarded(self, function: Callable[..., bool | None]) -> Callable[..., int]:
        """Return what C calls: an error is kept, and ends the run, as does True."""

        def call(_user: object, *given: Any) -> int:
            try:
                return int(function(*given) or False)
            except Exception as error:
                self._failure = error
                return 1

        return call

    def run(self, inputs: Sequence[int | None], outputs: Sequence[int | None]) -> None:
        """Run once; the numbers are addresses.

        Raises:
            KernelError: an instruction failed.
        """
        given = (ctypes.c_void_p * max(len(inputs), 1))(*inputs)
        made = (ctypes.c_void_p * max(len(outputs), 1))(*outputs)
        self.run_at(given, made)

    def run_at(self, inputs: ctypes.Array[ctypes.c_void_p], outputs: ctypes.Array[ctypes.c_void_p]) -> None:
        """Run once with addresses that lie in C's arrays already."""
        error = new_error()
        status = library().atalla_run(self._handle, inputs, outputs, ctypes.byref(error))
        failure, self._failure = self._failure, None
        if failure is not None:
            raise KernelError(status, str(failure)) from failure
        if status:
            raise KernelError(status, error.text.decode(errors="replace"))

    @property
    def arena(self) -> int:
        """The address of the tensors that the program makes underway."""
        return int(library().atalla_arena(self._handle))

    def reset(self) -> None:
        """Bring what is kept from run to run back to what it is at first.

        Raises:
            KernelError: it is running.
        """
        status = library().atalla_reset(self._handle)
        if status:
            raise KernelError(status, "it is running")

    def times_ns(self) -> list[int]:
        """Return the nanoseconds of each instruction in the last run; nothing without ``profile``."""
        count = library().atalla_times(self._handle, None, ctypes.c_size_t(0))
        found = (ctypes.c_uint64 * max(count, 1))()
        library().atalla_times(self._handle, found, ctypes.c_size_t(count))
        return list(found)[:count]

    def simulation(self, names: Sequence[Named]) -> Simulation | None:
        """Return what the last run took on the device; None without one. ``names`` say what its instructions are."""
        if self._device is None:
            return None
        return read_simulation(self._handle, self._device.hardware, self.isa, names)

    @property
    def isa(self) -> str:
        """The instruction set that it uses."""
        return str(library().atalla_isa(self._handle).decode())

    def __del__(self) -> None:
        """Free memory, end threads."""
        if getattr(self, "_handle", None):
            self._free(self._handle)
