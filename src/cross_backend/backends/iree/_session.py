"""An open ``.vmfb``: buffers are made once at bind, and the call goes straight into IREE's virtual machine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cross_backend.backend import Session
from cross_backend.backends.iree._lower import ENTRY
from cross_backend.errors import LoadError, failing_as
from cross_backend.tensors import Tensors, dtype_of, to_numpy

if TYPE_CHECKING:
    import numpy as np


class Output:
    """An output in the device's memory; reading it as an array copies it to the host."""

    def __init__(self, device: Any, view: Any, wanted: np.dtype[Any]) -> None:
        self._view, self._device = view, device  # given back in this order: a buffer needs its device
        self._wanted = wanted
        """Type of the program's output: IREE's whole numbers have no sign."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(self._view.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        import numpy as np
        from iree.runtime import HalElementType

        dtype: np.dtype[Any] = np.dtype(HalElementType.map_to_dtype(self._view.element_type))
        is_same_but_for_sign = {dtype.kind, self._wanted.kind} <= set("iu") and dtype.itemsize == self._wanted.itemsize
        return self._wanted if is_same_but_for_sign else dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Copy to the host, through memory that both sides reach."""
        import numpy as np
        from iree.runtime import BufferUsage, HalFence, MemoryType

        source = self._view.get_buffer()
        if not self.shape or all(self.shape):
            staging = self._device.allocator.allocate_buffer(
                memory_type=int(MemoryType.HOST_LOCAL | MemoryType.DEVICE_VISIBLE),
                allowed_usage=int(BufferUsage.TRANSFER_TARGET | BufferUsage.MAPPING_SCOPED),
                allocation_size=source.byte_length(),
            )
            semaphore = self._device.create_semaphore(0)
            begin, end = HalFence.create_at(semaphore, 0), HalFence.create_at(semaphore, 1)
            self._device.queue_copy(source, staging, wait_semaphores=begin, signal_semaphores=end)
            end.wait()
            array = np.array(staging.map().asarray(self.shape, self.dtype))
        else:
            array = np.empty(self.shape, self.dtype)
        return array if dtype is None else array.astype(dtype)


class IreeSession(Session):
    """What the devices share."""

    @abstractmethod
    def _create_device(self) -> Any:
        """Return an open ``iree.runtime.HalDevice``."""

    def _check(self, notes: dict[str, str]) -> None:
        """Refuse a module that was not made for this device.

        Args:
            notes: what was written into it when it was lowered.

        Raises:
            LoadError: it was made for another one.
        """

    def _open(self) -> None:
        import iree.runtime as iree

        path = self.artifact.payload_path
        with failing_as(LoadError, f"IREE cannot load {path.name}"):
            instance = iree.VmInstance()
            self._device = self._create_device()
            self._module = iree.VmModule.mmap(instance, str(path))
            self._function = self._module.lookup_function(ENTRY)
            self._check(self._function.reflection)
            hal = iree.create_hal_module(instance, self._device)
            self._context = iree.VmContext(instance, [hal, self._module])

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import iree.runtime as iree
        import numpy as np

        device = self._device
        arguments = iree.VmVariantList(len(inputs))
        for x in inputs:
            array = iree.asdevicearray(device, np.array(to_numpy(x), order="C"))
            arguments.push_ref(array._buffer_view)
        count = len(self.outputs)
        wanted = [dtype_of(spec.dtype) for spec in self.outputs]

        def run() -> Tensors:
            results = iree.VmVariantList(count)
            self._context.invoke(self._function, arguments, results)
            return [Output(device, results.get_as_object(i, iree.HalBufferView), wanted[i]) for i in range(count)]

        return run

    def _close(self) -> None:
        """Release the device, and only then the module.

        A device waits for its threads as it goes, and the last one to let go of a module needs the interpreter, which
        is held here: were it one of these threads, both would wait for ever. (IREE 3.13; one of a thousand sessions.)
        """
        del self._context, self._function, self._device
        del self._module

    _module: Any
    _context: Any
    _function: Any
    _device: Any


def create_driver(uri: str, *flags: str) -> Any:
    """Open another driver of IREE's runtime: the one that the runtime shares keeps the flags that it began with."""
    from iree.runtime import flags as settings
    from iree.runtime._binding import create_hal_driver

    if flags:
        settings.parse_flags(*flags)
    return create_hal_driver(uri)
