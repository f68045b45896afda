"""torch: the captured program run by torch itself: op by op, through torch.compile, or compiled ahead of time."""

from __future__ import annotations

import re
import shutil
import zipfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import (
    THREADS,
    Backend,
    Calibration,
    Gap,
    Lowered,
    Missing,
    Option,
    Options,
    Recorded,
    Session,
)
from cross_backend.backends._packages import missing_packages, space_gap
from cross_backend.backends._quantize import GROUP, int4, with_low_products
from cross_backend.backends._to_torch import to_torch
from cross_backend.backends._torch_device import (
    CUDA_GRAPH,
    as_cuda_graph,
    describe,
    device_option,
    moved_with_inputs,
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
from cross_backend.program.capture import OnnxProgram, Program
from cross_backend.program.pt2 import code_in_pt2, load_pt2, save_pt2
from cross_backend.records import Execution, Timing
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from cross_backend.machine import Machine

_PRECISION = Option("arithmetic of matrix products", "fp32", ("fp32", "int8dyn", "int4w"))
_NOT_ONNX = "torch runs PyTorch programs; it has no ONNX importer"


def _torch_program(program: Program) -> ExportedProgram:
    if isinstance(program, OnnxProgram):
        raise UnsupportedError(_NOT_ONNX)
    return program


def _prepared(program: Program, options: Options) -> ExportedProgram:
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


class _Torch(Backend):
    """What the three share."""

    suffix = ".pt2"
    distributions = ("torch",)
    options = {
        "device": device_option("cpu", "cuda", "mps"),
        "precision": _PRECISION,
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
        save_pt2(_prepared(program, options), payload)
        names = Counter(str(node.target) for node in load_pt2(payload).graph.nodes if node.op == "call_function")
        return Lowered(payload, Placement(inside=count_operators(names), arithmetic=_arithmetic(names, options)))

    def code_in(self, artifact: Artifact) -> str | None:
        return code_in_pt2(artifact.payload_path)

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Name the device; torch refuses to mix devices, so nothing runs elsewhere."""
        require(options["device"])
        return Execution(describe(options["device"]))


class _TorchSession(Session):
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
            call = self._recorded(lambda: _pytree.tree_leaves(function(*args)))

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

    def _recorded(self, call: Callable[[], Any]) -> Callable[[], Any]:
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


class _ProgramSession(_TorchSession):
    """The exported program as a module."""

    def _load(self, path: Path) -> Callable[..., Any]:
        program = read_program(path, self._device)
        self._in_spec = program.call_spec.in_spec
        self._module = program.module()
        module: Callable[..., Any] = self._module
        return module

    def _recorded(self, call: Callable[[], Any]) -> Callable[[], Any]:
        import torch

        if self.options["cuda_graph"] == "off":
            return call
        with torch.inference_mode():
            return as_cuda_graph(call, self._module)

    _module: Any


@final
class TorchEager(_Torch):
    """The exported graph, op by op; the plainest way to run it."""

    name = "torch.eager"
    title = "PyTorch eager"

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _ProgramSession(artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        return self._recorded(artifact, options, inputs, runs)

    def record_calls(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        if options["device"] != "cpu":
            raise UnsupportedError("a GPU's profile does not say which operator called a kernel")
        return self._recorded(artifact, options, inputs, runs, is_whole=True)

    def _recorded(
        self, artifact: Artifact, options: Options, inputs: Tensors, runs: int, *, is_whole: bool = False
    ) -> Recorded:
        """Record operators and what each calls in turn, or (``is_whole``) the outermost ones, with all they call."""
        if options["device"] == "mps":
            raise UnsupportedError("torch's profiler does not time Metal's kernels")
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as record

        of_gpu = options["device"] == "cuda"
        recorded = []
        with self.load(artifact, options) as session:
            run = session.bind(inputs)
            for _ in range(runs + 1):
                with record(activities=[ProfilerActivity.CUDA if of_gpu else ProfilerActivity.CPU]) as trace:
                    run()
                if is_whole:
                    outermost = [event for event in trace.events() if event.cpu_parent is None]
                    outermost.sort(key=lambda event: event.time_range.start)
                    recorded.append([Timing(e.name, "operator", 1, e.cpu_time_total / 1e3) for e in outermost])
                else:
                    recorded.append([_timing(event, of_gpu=of_gpu) for event in trace.key_averages()])
        return recorded[1:]


def _timing(event: Any, *, of_gpu: bool) -> Timing:
    """Return what the profiler recorded of one operator on the processor, or of one kernel on the GPU."""
    if of_gpu:
        return Timing(event.key, "operator", event.count, event.self_device_time_total / 1e3)
    return Timing(event.key, "operator", event.count, event.self_cpu_time_total / 1e3)


class _CompiledSession(_ProgramSession):
    def _load(self, path: Path) -> Callable[..., Any]:
        import torch

        function: Callable[..., Any] = torch.compile(super()._load(path), dynamic=False)
        return function

    def _open(self) -> None:
        """Compile here rather than in the first call, so that no instrument times the compiler."""
        from cross_backend.tensors import random_inputs

        super()._open()
        with failing_as(LoadError, "torch.compile failed"):
            self._bind(random_inputs(self.inputs))()


def _compiler_gap() -> Gap | None:
    if any(shutil.which(name) for name in ("g++", "clang++", "c++", "cl")):
        return space_gap()
    return Gap("needs a C++ compiler", "install g++ or clang++ (Debian: apt-get install g++)")


@final
class TorchCompile(_Torch):
    """The exported graph through torch.compile (TorchInductor); compiled when the artifact is opened."""

    name = "torch.compile"
    title = "PyTorch compile"

    def missing(self, machine: Machine) -> Missing | None:
        return super().missing(machine) or Missing(run=_compiler_gap()) or None

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _CompiledSession(artifact, options)


class _PackageSession(_TorchSession):
    """A shared library made by AOTInductor."""

    def _load(self, path: Path) -> Callable[..., Any]:
        from torch._inductor import aoti_load_package

        function: Callable[..., Any] = aoti_load_package(str(path))
        return function

    def _arguments(self, leaves: list[Any]) -> Any:
        return leaves


@final
class TorchAotInductor(_Torch):
    """The exported graph compiled ahead of time to a shared library for this processor."""

    name = "torch.aot_inductor"
    title = "PyTorch AOTInductor"
    options = {
        "device": device_option("cpu", "cuda", at_lowering=True),
        "precision": _PRECISION,
        "threads": THREADS,
    }
    payload_depends_on_cpu = True

    def missing(self, machine: Machine) -> Missing | None:
        return super().missing(machine) or Missing(lower=_compiler_gap()) or None

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        from torch._inductor import aoti_compile_and_package

        require(options["device"])
        payload = stem.with_name(stem.name + self.suffix)
        with failing_as(LowerError, "AOTInductor failed"):
            own = _prepared(program, options)
            if options["device"] != "cpu":  # moving changes a program, and torch's copies of one may not be valid
                save_pt2(own, payload)
                own = moved_with_inputs(payload, own, options["device"])
            aoti_compile_and_package(own, package_path=str(payload))
        with zipfile.ZipFile(payload) as archive:
            sources = [
                archive.read(name).decode(errors="replace") for name in archive.namelist() if name.endswith(".cpp")
            ]
        return Lowered(payload, Placement(inside=count_operators(_kernels("\n".join(sources)))))

    def code_in(self, artifact: Artifact) -> str | None:
        return "a compiled library"

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _PackageSession(artifact, options)


def _kernels(source: str) -> Counter[str]:
    """Count what the generated C++ in the package calls: inductor's fused kernels, and torch's own operators."""
    fused = dict.fromkeys(re.findall(r"\b(?:cpp|triton_[a-z]+)_fused_\w+", source), 1)
    return Counter(fused) + Counter(re.findall(r"\b(aoti_torch_(?:cpu|cuda)_\w+)\(", source))
