"""openvino: Intel's OpenVINO on the CPU, from PyTorch programs and ONNX files; float32 unless asked otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact, Placement, count_operators
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Option, Options, Session
from cross_backend.backends._packages import missing_packages
from cross_backend.backends._timings import typical
from cross_backend.capture import OnnxProgram, Program
from cross_backend.errors import LoadError, LowerError, one_line
from cross_backend.records import Timing
from cross_backend.tensors import Tensors, to_numpy

if TYPE_CHECKING:
    from cross_backend.machine import Machine

_HINTS = {"fp32": "f32", "bf16": "bf16"}


@final
class OpenVino(Backend):
    """The CPU plugin.

    Its own default on processors with bfloat16 units is bfloat16, twice as fast with errors up to 1e-1; a
    target says ``precision=bf16`` to have that, and then its row says so.
    """

    name = "openvino"
    title = "OpenVINO (CPU)"
    suffix = ""
    distributions = ("openvino", "torch")
    options = {
        "precision": Option("arithmetic inside the CPU plugin", "fp32", tuple(_HINTS), at="load"),
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
                model = openvino.convert_model(program)
                _fix_shapes(model, program)
            stem.mkdir()
            openvino.save_model(model, stem / "model.xml", compress_to_fp16=False)
            saved = openvino.Core().read_model(stem / "model.xml")
        except Exception as error:
            raise LowerError(f"OpenVINO cannot convert it: {one_line(error)}") from error
        shown = Counter(op.get_type_name() for op in saved.get_ops())
        for bookkeeping in ("Parameter", "Result", "Constant"):
            del shown[bookkeeping]
        weights = (stem / "model.bin").stat().st_size
        return Lowered(stem, Placement(inside=count_operators(shown), constant_bytes=weights))

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _OpenVinoSession(artifact, options)

    def profile(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> tuple[Timing, ...]:
        session = _OpenVinoSession(artifact, options)
        session.counts = True
        recorded = []
        with session:
            request = session.request(inputs)
            for _ in range(runs + 1):
                request.infer()
                recorded.append([_timing(row) for row in request.get_profiling_info() if row.real_time])
        return typical(recorded[1:])


def _fix_shapes(model: Any, program: Any) -> None:
    """Give the model the program's static extents, which the converter forgets; symbolic ones stay free."""
    import openvino

    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    shapes = {}
    for port, name in zip(model.inputs, program.graph_signature.user_inputs, strict=True):
        extents = placeholders[name].meta["val"].shape
        shapes[port] = openvino.PartialShape([n if isinstance(n, int) else -1 for n in extents])
    model.reshape(shapes)


def _timing(row: Any) -> Timing:
    return Timing(row.node_type, "operator", 1, row.real_time.total_seconds() * 1e3)


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
        if self.options["threads"] is not None:
            settings["INFERENCE_NUM_THREADS"] = self.options["threads"]
        try:
            core = openvino.Core()
            self._compiled = core.compile_model(self.artifact.payload_path / "model.xml", "CPU", settings)
        except Exception as error:
            raise LoadError(f"OpenVINO cannot load {self.artifact.payload_path.name}: {one_line(error)}") from error

    def request(self, inputs: Tensors) -> Any:
        """Give a request of its own, so that bindings live side by side."""
        import numpy as np
        import openvino

        request = self._compiled.create_infer_request()
        for index, x in enumerate(inputs):
            request.set_input_tensor(index, openvino.Tensor(np.array(to_numpy(x), order="C")))
        return request

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        request, count = self.request(inputs), len(self.outputs)

        def run() -> Tensors:
            request.infer()
            return [request.get_output_tensor(i).data for i in range(count)]

        return run

    def _close(self) -> None:
        del self._compiled

    _compiled: Any
