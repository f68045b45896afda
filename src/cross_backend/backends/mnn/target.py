"""mnn: Alibaba's MNN, on the processor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Option, Options, Recorded, Session
from cross_backend.backends._onnx import TO_LOWER
from cross_backend.backends._packages import missing_packages
from cross_backend.backends._scripts import check_float32
from cross_backend.backends.mnn._convert import convert
from cross_backend.backends.mnn._placement import read_placement
from cross_backend.backends.mnn._session import PROCESSOR, MnnSession
from cross_backend.backends.mnn._stack import refused_stack
from cross_backend.errors import LoadError, LowerError, RunError
from cross_backend.program.captured import Program
from cross_backend.program.onnx_export import OPSET
from cross_backend.records import Execution
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from cross_backend.machine import Machine


@final
class Mnn(Backend):
    """The processor alone: MNN's package has no other device, and asked for one it takes the processor in silence."""

    name = "mnn"
    title = "Alibaba MNN"
    suffix = ".mnn"
    distributions = ("MNN", *TO_LOWER)
    takes_state = "tensors"
    preload = ("onnxscript",)
    runtime_modules = ("MNN",)
    options = {
        "precision": Option("storage of weights, and arithmetic where the processor has it", "fp32", ("fp32", "fp16")),
        "threads": THREADS,
    }

    def missing(self, machine: Machine) -> Missing | None:
        absent, refused = missing_packages(self.distributions, ("MNN",), "mnn"), refused_stack(machine)
        return absent or (Missing(refused, refused) if refused else None)

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        payload = stem.with_name(stem.name + self.suffix)
        convert(program, payload, half=options["precision"] == "fp16")
        try:
            return Lowered(payload, read_placement(payload, calibration[0], options["precision"]))
        except (LoadError, RunError) as error:
            raise LowerError(f"MNN converts it, but cannot run the file: {error}") from error

    def reproduction(self, options: Options) -> Sequence[str]:
        check_float32(self.title, options)
        convert = '[sys.executable, "-c", "import sys, _tools; _tools.mnnconvert(sys.argv)", "-f", "ONNX"]'
        return [
            "import MNN, subprocess, sys, tempfile",
            f"exported = torch.onnx.export(program, dynamo=True, opset_version={OPSET}, verbose=False)",
            "made = tempfile.TemporaryDirectory()",
            "folder = made.name",
            'exported.save(f"{folder}/m.onnx")',
            'files = ["--modelFile", "m.onnx", "--MNNModel", "m.mnn", "--bizCode", "m"]',
            f"subprocess.run([*{convert}, *files], cwd=folder, capture_output=True)",
            "ports = [[x.name for x in many] for many in (exported.model.graph.inputs, exported.model.graph.outputs)]",
            'net = MNN.nn.load_module_from_file(f"{folder}/m.mnn", *ports, precision_mode=MNN.expr.PrecisionMode.High)',
            "kinds = {torch.float32: MNN.expr.float, torch.int32: MNN.expr.int}",
            "given = [x if x.dtype in kinds else x.int() for x in inputs]",
            "given = [MNN.expr.const(x.numpy(), list(x.shape), MNN.expr.NCHW, kinds[x.dtype]) for x in given]",
            "got = [MNN.expr.convert(x, MNN.expr.NCHW).read() for x in net.forward(given)]",
            "got = [torch.as_tensor(x).reshape(want.shape).to(want.dtype) for x, want in zip(got, expected)]",
        ]

    def load(self, artifact: Artifact, options: Options) -> Session:
        return MnnSession(artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        with MnnSession(artifact, options) as session:
            return session.recorded(inputs, runs + 1)[1:]

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Read on which of MNN's backends the session is."""
        with MnnSession(artifact, options) as session:
            number = session.backend()
        is_here = number in PROCESSOR
        return Execution(
            "CPU",
            nodes=float(is_here),
            elsewhere=() if is_here else ((f"the model on MNN's backend {number}", 1),),
            precision="fp32" if options["precision"] == "fp32" else _half_of_cpu(),
        )


def _half_of_cpu() -> str | None:
    """Return what a processor computes in where weights have 16 bits; None for Arm, which MNN does not report."""
    from cross_backend.machine import Machine

    return "fp32 with fp16 weights" if Machine.here().arch == "x86_64" else None
