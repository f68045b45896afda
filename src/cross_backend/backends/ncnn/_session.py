"""An open ncnn payload: tensors are made once at bind, and each call makes an extractor, as ncnn's own loops do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cross_backend.backend import Session
from cross_backend.backends._integers import to_int32
from cross_backend.backends._vulkan import REMEDY, find_devices
from cross_backend.backends.ncnn._files import PARAM, WEIGHTS, Port, Ports
from cross_backend.errors import LoadError, RunError, UnavailableError, failing_as
from cross_backend.tensors import Tensors, TensorSpec, to_numpy

if TYPE_CHECKING:
    import numpy as np

_HALF = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic")
_OFF = ("use_bf16_packed", "use_bf16_storage")
_SOFTWARE = 3
"""``GpuInfo.type()`` of a driver that computes on the processor."""


class _Output:
    """An output in ncnn's memory; reading it as an array copies it."""

    def __init__(self, mat: Any, batch: int, spec: TensorSpec, net: Any) -> None:
        self._mat, self._batch, self._spec = mat, batch, spec
        self._net = net  # whose allocator the memory belongs to

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return tuple(int(n) for n in self._spec.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        import numpy as np

        return np.dtype(self._spec.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Copy it in the program's shape and type.

        Raises:
            RunError: ncnn gave another number of elements.
        """
        import numpy as np

        array = self._mat.numpy(batch_index=self._batch)
        if array.size != np.prod(self.shape, dtype=int):
            raise RunError(f"ncnn gave {list(array.shape)} for {self._spec.name!r}, which is {self._spec}.")
        return np.array(array, dtype or self.dtype).reshape(self.shape)


class NcnnSession(Session):
    """What both devices share; ``device`` and ``precision`` are options of the target."""

    def _open(self) -> None:
        import ncnn

        folder = self.artifact.payload_path
        self._ports = Ports.read(folder)
        if (len(self._ports.inputs), len(self._ports.outputs)) != (len(self.inputs), len(self.outputs)):
            raise LoadError(f"{folder.name} does not have the inputs and outputs that its manifest describes.")
        with failing_as(LoadError, f"ncnn cannot load {folder.name}"):
            net = ncnn.Net()
            for name in _HALF:
                setattr(net.opt, name, self.options["precision"] == "fp16")
            for name in _OFF:
                setattr(net.opt, name, False)
            if self.options["threads"] is not None:
                net.opt.num_threads = self.options["threads"]
            if self.options["device"] == "vulkan":
                self.gpu = require_gpu()
                net.opt.use_vulkan_compute = True
                net.set_vulkan_device(ncnn.get_default_gpu_index())
            for load, name in ((net.load_param, PARAM), (net.load_model, WEIGHTS)):
                status = load(str(folder / name))
                if status:
                    raise LoadError(f"ncnn cannot load {folder.name}: {name} is damaged (status {status}).")
        absent = {port.blob for port in self._ports.inputs} - set(net.input_names())
        if absent:
            raise LoadError(f"{folder.name} does not have the inputs {', '.join(sorted(absent))[:200]}.")
        self._net = net

    def on_processor(self) -> Counter[str]:
        """Count the layers that have no Vulkan form, which ncnn runs on the processor, by their type."""
        return Counter(layer.type for layer in self._net.layers() if not layer.support_vulkan and layer.type != "Input")

    @property
    def layer_count(self) -> int:
        """Layers of the open graph."""
        return sum(layer.type != "Input" for layer in self._net.layers())

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import ncnn

        net = self._net
        ports = self._ports.inputs
        arrays = [_as_taken(spec, x, port) for spec, x, port in zip(self.inputs, inputs, ports, strict=True)]
        mats = [  # a Mat of an array looks into the array's memory without keeping it: hence the names, and the copies
            (port.blob, ncnn.Mat(array, batch_index=port.batch).clone())
            for port, array in zip(ports, arrays, strict=True)
        ]
        wanted = [(port.blob, port.batch, spec) for port, spec in zip(self._ports.outputs, self.outputs, strict=True)]

        def run() -> Tensors:
            extractor = net.create_extractor()
            for blob, mat in mats:
                extractor.input(blob, mat)
            outputs = []
            for blob, batch, spec in wanted:
                status, mat = extractor.extract(blob)
                if status:
                    raise RunError(f"ncnn failed at {blob!r} with status {status}.")
                outputs.append(_Output(mat, batch, spec, net))
            return outputs

        return run

    def _close(self) -> None:
        del self._net

    _net: Any
    gpu: Any


def _as_taken(spec: TensorSpec, x: Any, port: Port) -> np.ndarray[Any, Any]:
    """Return a row-major array of the type that ncnn computes in."""
    import numpy as np

    array = to_numpy(x)
    is_index = array.dtype.kind in "iu" and not port.as_float
    return to_int32(spec.name, array) if is_index else np.array(array, np.float32, order="C")


def require_gpu() -> Any:
    """Return ncnn's description of its first Vulkan device.

    Raises:
        UnavailableError: there is none, or its driver crashes, which is tried in a process of its own.
    """
    import ncnn

    found = find_devices()
    if not found.devices:
        raise UnavailableError(f"ncnn needs a Vulkan device: {found.why_none}", REMEDY)
    if not ncnn.get_gpu_count():
        raise UnavailableError("ncnn finds no Vulkan device that it can use", REMEDY)
    return ncnn.get_gpu_info(ncnn.get_default_gpu_index())


def is_software(gpu: Any) -> bool:
    """Whether a driver computes on the processor."""
    return bool(gpu.type() == _SOFTWARE)
