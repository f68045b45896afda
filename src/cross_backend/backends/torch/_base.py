"""What torch's backends share: the program in the precision that is asked for, and a session on torch tensors."""

from __future__ import annotations

import shutil
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.artifact import Artifact
from cross_backend.backend import (
    THREADS,
    Backend,
    Calibration,
    Keeper,
    Lowered,
    Missing,
    Option,
    Options,
    Session,
    Unavailable,
)
from cross_backend.backends._packages import missing_packages, spaces_in_path
from cross_backend.backends._quantize import GROUP, int4, with_low_products
from cross_backend.backends._scripts import check_float32, check_processor
from cross_backend.backends._to_torch import to_torch
from cross_backend.backends.torch._buffers import Buffers
from cross_backend.backends.torch._device import (
    CUDA_GRAPH,
    as_cuda_graph,
    describe,
    device_option,
    read_program,
    require,
    synchronize,
)
from cross_backend.errors import (
    CrossBackendError,
    LoadError,
    LowerError,
    UnavailableError,
    UnsupportedError,
    failing_as,
    one_line,
)
from cross_backend.machine import version_of
from cross_backend.placement import Arithmetic, Placement, count_operators, split_arithmetic
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.pt2 import code_in_pt2, load_pt2, save_pt2
from cross_backend.program.state import state_of
from cross_backend.records import Execution
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from cross_backend.machine import Machine

PRECISION = Option("arithmetic of matrix products", "fp32", ("fp32", "int8dyn", "int4w"))
_NOT_ONNX = "torch runs PyTorch programs; it has no ONNX importer"


def _torch_program(program: Program) -> ExportedProgram:
    if isinstance(program, OnnxProgram):
        raise UnsupportedError(_NOT_ONNX)
    return program


def prepared(program: Program, options: Options) -> ExportedProgram:
    """Return the program in the precision that is asked for: matrix products as torchao has them."""
    own, precision = _torch_program(program), options["precision"]
    if precision == "fp32":
        return own
    if version_of("torchao") is None:
        raise UnavailableError(f"precision={precision} needs torchao", "pip install torchao")
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerGroup

    with failing_as(LowerError, f"torchao cannot quantise it to {precision}"):
        if precision == "int8dyn":
            low: ExportedProgram = with_low_products(own, Int8DynamicActivationInt8WeightConfig())
        else:
            config = IntxWeightOnlyConfig(weight_dtype=int4(), granularity=PerGroup(GROUP))
            low = with_low_products(own, config, GROUP)
        return low


def _arithmetic(names: Mapping[str, int], options: Options) -> Arithmetic | None:
    """Tell a program's operators apart; 4-bit weights are widened before each product, which is then of float32."""
    if options["precision"] == "fp32":
        return None
    found = {name.removeprefix("aten.").partition(".")[0]: count for name, count in names.items() if "aten." in name}
    found["dequantize"] = sum(n for name, n in names.items() if name.startswith(("torchao.quant", "torchao.dequant")))
    return split_arithmetic(
        found,
        is_low=lambda name: name == "_int_mm",
        is_conversion=lambda name: name in {"dequantize", "_to_copy", "to"},
    )


def script(title: str, options: Options, function: str) -> list[str]:
    """Return the lines that call a function of the program's inputs."""
    check_float32(title, options)
    check_processor(title, options)
    return [
        f"function = {function}",
        "with torch.inference_mode():",
        "    got = torch.utils._pytree.tree_leaves(function(*inputs))",
    ]


def missing_compiler() -> Unavailable | None:
    if any(shutil.which(name) for name in ("g++", "clang++", "c++", "cl")):
        return spaces_in_path()
    return Unavailable("needs a C++ compiler", "install g++ or clang++ (Debian: apt-get install g++)")


class TorchBackend(Backend):
    """What the three share."""

    suffix = ".pt2"
    distributions = ("torch",)
    options = {
        "device": device_option("cpu", "cuda", "mps"),
        "precision": PRECISION,
        "threads": THREADS,
        "cuda_graph": CUDA_GRAPH,
    }
    lacks = {"int8": "torch computes programs with calibrated scales in float32"}
    limits = {"onnx_program": _NOT_ONNX}
    runtime_modules = ("torch",)

    def missing(self, machine: Machine) -> Missing | None:
        return missing_packages(self.distributions, self.distributions, "torch")

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        """Store the program; read its operators back from the file."""
        payload = stem.with_name(stem.name + self.suffix)
        save_pt2(prepared(program, options), payload)
        names = Counter(str(node.target) for node in load_pt2(payload).graph.nodes if node.op == "call_function")
        return Lowered(payload, Placement(inside=count_operators(names), arithmetic=_arithmetic(names, options)))

    def code_in(self, artifact: Artifact) -> str | None:
        return code_in_pt2(artifact.payload_path)

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Name the device; torch refuses to mix devices, so nothing runs elsewhere."""
        require(options["device"])
        return Execution(describe(options["device"]))


class TorchSession(Session):
    """A callable on torch tensors."""

    def _open(self) -> None:
        import torch

        if self.options["threads"] is not None:
            torch.set_num_threads(self.options["threads"])
        self._device = self.options["device"]
        require(self._device)
        if self.options.get("cuda_graph") == "on" and self._device != "cuda":
            raise UnsupportedError("cuda_graph=on needs device=cuda")
        try:
            self._function = self._load(self.artifact.payload_path)
        except CrossBackendError as error:
            raise LoadError(str(error)) from error
        except Exception as error:
            raise LoadError(f"torch cannot load {self.artifact.payload_path.name}: {one_line(error)}") from error

    @abstractmethod
    def _load(self, path: Path) -> Callable[..., Any]:
        """Return a function of the program's positional arguments."""

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import torch
        from torch.utils import _pytree

        function, wait = self._function, synchronize(self._device)
        args = self._arguments([to_torch(x).to(self._device) for x in inputs])
        if wait is not None:
            call = self._called(lambda: _pytree.tree_leaves(function(*args)))

            def run() -> Tensors:
                with torch.inference_mode():
                    outputs: Tensors = call()
                wait()
                return outputs
        elif len(self.outputs) == 1:

            def run() -> Tensors:
                with torch.inference_mode():
                    output = function(*args)
                return (output,) if isinstance(output, torch.Tensor) else _pytree.tree_leaves(output)
        else:

            def run() -> Tensors:
                with torch.inference_mode():
                    return _pytree.tree_leaves(function(*args))

        return run

    def _called(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """Return the call as the options want it on a GPU."""
        return call

    def _arguments(self, leaves: list[Any]) -> Any:
        """Put flat inputs back into the structure in which the program was captured."""
        from torch.utils import _pytree

        args, _ = _pytree.tree_unflatten(leaves, self._in_spec)
        return args

    _function: Callable[..., Any]
    _in_spec: Any
    _device: str

    def _close(self) -> None:
        del self._function


class ProgramSession(TorchSession):
    """The exported program as a module."""

    def _load(self, path: Path) -> Callable[..., Any]:
        program = read_program(path, self._device)
        self._in_spec = program.call_spec.in_spec
        self._state = state_of(program)
        self._module = program.module()
        module: Callable[..., Any] = self._module
        return module

    def keeper(self, initial: Sequence[Any]) -> Keeper:
        """Keep the state in the program's own buffers."""
        return Buffers(self, dict(self._module.named_buffers()), self._state, initial)

    def _called(self, call: Callable[[], Any]) -> Callable[[], Any]:
        import torch

        if self.options["cuda_graph"] == "off":
            return call
        with torch.inference_mode():
            return as_cuda_graph(call, self._module)

    _module: Any
    _state: Sequence[str]
