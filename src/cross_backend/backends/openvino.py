"""openvino: Intel's OpenVINO on CPU, GPU or NPU, from PyTorch and ONNX; float32 unless asked otherwise."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

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
    Recorded,
    Session,
)
from cross_backend.backends._nncf import arithmetic_of, quantize, read_arithmetic, text_in
from cross_backend.backends._openvino_state import Variables, stateful
from cross_backend.backends._packages import missing_packages
from cross_backend.backends._scripts import ARRAYS, check_float32
from cross_backend.errors import CrossBackendError, LoadError, LowerError, UnavailableError, failing_as, one_line
from cross_backend.names.precisions import QUANTISED
from cross_backend.placement import Placement, count_operators
from cross_backend.program.capture import ports_of
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.flattening import distinct_outputs
from cross_backend.records import Execution, Timing
from cross_backend.tensors import BFLOAT16, Tensors, dtype_of, to_numpy

if TYPE_CHECKING:
    from cross_backend.machine import Machine

# Without it OpenVINO works the same; with it, each import and conversion reports to the vendor, from another process.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

_HINTS = {"fp32": "f32", "fp16": "f16", "bf16": "bf16", "int8": "f32", "int8dyn": "f32", "int4w": "f32"}
"""Precision → what the plugin computes in where no operator is quantised."""
_PRECISIONS = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "u8": "int8"}
"""What the plugins call arithmetic → what we call it; what else they name, such as index types, is none."""
_REPORT = 300
"""Most characters of the converter's report."""
_COUNTED_RUNS = 3
"""Runs whose node times are read; the plugin averages them."""
_NO_WORK = {"Input", "Output", "Const", "Parameter", "Result", "Constant", "Reorder", "Convert"}
"""Layer types that only hold or convert numbers."""
_QUANTISED = {"Convolution", "Deconvolution", "FullyConnected", "MatMul", "RNNSeq", "FakeQuantize"}
"""Layer types that compute in int8 where a model is quantised; others hold bytes and truths in it."""
_DRIVERS = {
    "gpu": "install Intel's graphics compute runtime (Debian: apt-get install intel-opencl-icd)",
    "npu": "install Intel's NPU driver (https://github.com/intel/linux-npu-driver)",
}


@final
class OpenVino(Backend):
    """One plugin at a time: neither AUTO nor HETERO, which would run elsewhere what a device cannot.

    The CPU plugin's own default on processors with bfloat16 units is bfloat16, twice as fast with errors up to 1e-1; a
    target says ``precision=bf16`` to have that, and then its row says so. What was really computed in is read back.
    Where float16 is asked of a processor that has bfloat16 alone, the plugin takes that, and we do not run it.
    """

    name = "openvino"
    title = "OpenVINO"
    suffix = ""
    takes_state = "tensors"
    distributions = ("openvino", "torch", "nncf")
    runtime_modules = ("openvino",)
    options = {
        "device": Option("which processor runs it", "cpu", ("cpu", "gpu", "npu"), at="load"),
        "precision": Option("arithmetic inside the plugin", "fp32", tuple(_HINTS), "load", QUANTISED),
        "threads": THREADS,
    }

    def missing(self, machine: Machine) -> Missing | None:
        return missing_packages(self.distributions, ("openvino",), "openvino")

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        import openvino

        try:
            if isinstance(program, OnnxProgram):
                model = openvino.convert_model(program.path)
            else:
                distinct, places = distinct_outputs(program)  # its frontend looks outputs up by name
                model = openvino.convert_model(distinct)
                _fix_shapes(model, distinct)
                if len(places) > len(model.outputs):
                    model = _repeated(model, places)
            stem.mkdir()
            if options["precision"] in QUANTISED:
                model = quantize(model, options["precision"], calibration)
            openvino.save_model(model, stem / "model.xml", compress_to_fp16=False)
            saved = openvino.Core().read_model(stem / "model.xml")
        except CrossBackendError:
            raise
        except Exception as error:
            raise LowerError(f"OpenVINO cannot convert it: {_said(error)}") from error
        shown = Counter(op.get_type_name() for op in saved.get_ops())
        for bookkeeping in ("Parameter", "Result", "Constant"):
            del shown[bookkeeping]
        weights = (stem / "model.bin").stat().st_size
        arithmetic = read_arithmetic(stem / "model.xml") if options["precision"] in QUANTISED else None
        return Lowered(stem, Placement(inside=count_operators(shown), constant_bytes=weights, arithmetic=arithmetic))

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _OpenVinoSession(artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        session = _OpenVinoSession(artifact, options)
        session.counts = True
        recorded = []
        with session:
            request = session.request(inputs)
            for _ in range(runs + 1):
                request.infer()
                recorded.append([_timing(row) for row in request.get_profiling_info() if row.real_time])
        return recorded[1:]

    def reproduction(self, options: Options) -> Sequence[str]:
        check_float32(self.title, options, ("fp32", "fp16", "bf16"))
        return [
            'import sys; sys.modules["openvino_telemetry"] = None  # sends data, and may never end without a network',
            "import openvino",
            "converted = openvino.convert_model(program)",
            "converted.reshape({port: list(x.shape) for port, x in zip(converted.inputs, inputs)})",
            f'hints = {{"INFERENCE_PRECISION_HINT": "{_HINTS[options["precision"]]}"}}',
            f'compiled = openvino.Core().compile_model(converted, "{options["device"].upper()}", hints)',
            f"results = compiled({ARRAYS})",
            "got = [results[port] for port in compiled.outputs]",
        ]

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Run a few times; read the devices and, for each node that took time, its arithmetic."""
        session = _OpenVinoSession(artifact, options)
        session.counts = True
        with session:
            request = session.request(inputs)
            for _ in range(_COUNTED_RUNS):
                request.infer()
            return session.execution()


def _said(error: Exception) -> str:
    """Return what the converter's report ends with: the operators that it does not know; else its first words."""
    _, _, summary = str(error).partition("\nSummary:\n")
    rows = [line.strip().removeprefix("-- ") for line in summary.splitlines() if line.strip()]
    return "; ".join(rows)[:_REPORT] or one_line(error)


def _fix_shapes(model: Any, program: Any) -> None:
    """Set the program's static extents, which the converter forgets, in the model; symbolic ones stay free."""
    import openvino

    shapes = {}
    for port, (_, value) in zip(model.inputs, ports_of(program)[0], strict=True):
        shapes[port] = openvino.PartialShape([n if isinstance(n, int) else -1 for n in value.shape])
    model.reshape(shapes)


def _repeated(model: Any, places: Sequence[int]) -> Any:
    """Return a model whose outputs are those of another, some of them twice."""
    import openvino
    from openvino import opset13

    sources = [result.input_value(0) for result in model.get_results()]
    return openvino.Model([opset13.result(sources[place]) for place in places], model.get_parameters())


def _precision(model: Any) -> str | None:
    """Return the arithmetic of a runtime model's nodes, that which took most time first: ``bf16 + fp32``."""
    spent: Counter[str] = Counter()
    for node in model.get_ops():
        info = node.get_rt_info()
        taken, kind = (text_in(info, key) for key in ("execTimeMcs", "layerType"))
        arithmetic = _PRECISIONS.get(text_in(info, "runtimePrecision").lower())
        is_arithmetic = kind not in _NO_WORK and (arithmetic != "int8" or kind in _QUANTISED)
        if arithmetic and taken.isdecimal() and is_arithmetic:
            spent[arithmetic] += int(taken)
    return " + ".join(name for name, _ in spent.most_common()) or None


def _timing(row: Any) -> Timing:
    return Timing(row.node_type, "operator", 1, row.real_time.total_seconds() * 1e3)


def _require(core: Any, device: str) -> None:
    """Refuse a device that its plugin does not find; a plugin says why only when it is asked to compile.

    Raises:
        UnavailableError: with the plugin's own words.
    """
    name = device.upper()
    if any(found.partition(".")[0] == name for found in core.available_devices):
        return
    import numpy as np
    import openvino
    from openvino import opset13

    x = opset13.parameter([1], np.float32)
    try:
        core.compile_model(openvino.Model([opset13.relu(x)], [x]), name)
    except Exception as error:
        said = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in said if not line.startswith("Exception from")), one_line(error))
        cause = reason.rpartition('": ')[2].partition(" Error: Exception")[0]
        raise UnavailableError(f"OpenVINO finds no {name} here ({cause[:160]})", _DRIVERS[device]) from error
    raise UnavailableError(f"OpenVINO finds no {name} here", _DRIVERS[device])


class _OpenVinoSession(Session):
    counts = False
    """Whether the plugin times its nodes, for a profile; to be said before the session is opened."""

    def _open(self) -> None:
        import openvino

        settings: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": _HINTS[self.options["precision"]],
            "PERFORMANCE_HINT": "LATENCY",
            "PERF_COUNT": self.counts,
        }
        device = self.options["device"]
        if device == "cpu" and self.options["threads"] is not None:
            settings["INFERENCE_NUM_THREADS"] = self.options["threads"]
        with failing_as(LoadError, f"OpenVINO cannot load {self.artifact.payload_path.name}"):
            core = openvino.Core()
            if device != "cpu":
                _require(core, device)
            model: Any = self.artifact.payload_path / "model.xml"
            if self._has_variables:
                model = stateful(core.read_model(model), self.remembers)
            self._compiled = core.compile_model(model, device.upper(), settings)
        taken = self._compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        if (self.options["precision"], taken) == ("fp16", "bf16"):
            raise UnavailableError(
                f"OpenVINO computes in bfloat16 where float16 is asked of this {device.upper()}, which has none",
                "say precision=bf16, or run it where there is some",
            )

    def execution(self) -> Execution:
        """Return what the plugin recorded since the session was opened with ``counts``."""
        device = self.options["device"].upper()
        used = [str(name) for name in self._compiled.get_property("EXECUTION_DEVICES")]
        elsewhere = Counter(name for name in used if name.partition(".")[0] != device)
        return Execution(
            f"OpenVINO {device}",
            nodes=1 - elsewhere.total() / len(used) if used else None,
            elsewhere=tuple((f"the model on {name}", count) for name, count in elsewhere.most_common()),
            precision=self._precision(),
        )

    def _precision(self) -> str | None:
        """Return the arithmetic; of a quantised model what was asked for, where the plugin computes products in it."""
        asked, model = self.options["precision"], self._compiled.get_runtime_model()
        return asked if asked in QUANTISED and arithmetic_of(model).low else _precision(model)

    def request(self, inputs: Tensors) -> Any:
        """Return a request of its own, so that bindings live side by side."""
        request = self._compiled.create_infer_request()
        for index, tensor in enumerate(_tensors(inputs)):
            request.set_input_tensor(index, tensor)
        return request

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        return self._call(self.request(inputs))

    @property
    def _has_variables(self) -> bool:
        """Whether the plugin keeps the state; its variables hold no int64 and no bfloat16 that can be set."""
        kept = self.inputs[len(self.inputs) - self.remembers :]
        return bool(kept) and all(spec.dtype == "float32" for spec in kept)

    def keeper(self, initial: Sequence[Any]) -> Keeper | None:
        """Keep the state in the plugin's variables."""
        if not self._has_variables:
            return None
        return Variables(self._compiled.create_infer_request(), initial, _tensors, self._call)

    def _call(self, request: Any) -> Callable[[], Tensors]:
        count = len(self.outputs) - (self.remembers if self._has_variables else 0)

        def run() -> Tensors:
            request.infer()
            return [request.get_output_tensor(i).data for i in range(count)]

        narrow = {i: dtype_of(BFLOAT16) for i, spec in enumerate(self.outputs[:count]) if spec.dtype == BFLOAT16}
        if not narrow:
            return run

        def run_narrow() -> Tensors:  # its arrays of bfloat16 have the right bits, and float16 as their type
            return [one.view(narrow[i]) if i in narrow else one for i, one in enumerate(run())]

        return run_narrow

    def _close(self) -> None:
        del self._compiled

    _compiled: Any


def _tensors(inputs: Tensors) -> list[Any]:
    """Return OpenVINO's tensors, which hold copies of the inputs."""
    import numpy as np
    import openvino

    made = []
    for x in inputs:
        array = np.array(to_numpy(x), order="C")
        if array.dtype.name == BFLOAT16:  # which its own conversion from NumPy does not know
            tensor = openvino.Tensor(openvino.Type.bf16, array.shape)
            tensor.data.view(np.uint16)[...] = array.view(np.uint16)
        else:
            tensor = openvino.Tensor(array)
        made.append(tensor)
    return made
