"""mnn: Alibaba's MNN, on the processor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Backend, Calibration, Lowered, Missing, Option, Options, Recorded, Session
from cross_backend.backends._onnx import LIMITS, TO_LOWER
from cross_backend.backends._packages import missing_packages
from cross_backend.backends.mnn._convert import convert
from cross_backend.backends.mnn._placement import read_placement
from cross_backend.backends.mnn._session import PROCESSOR, MnnSession
from cross_backend.errors import LoadError, LowerError, RunError
from cross_backend.program.capture import Program
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
    limits = LIMITS
    preload = ("onnxscript",)
    runtime_modules = ("MNN",)
    options = {
        "precision": Option("storage of weights, and arithmetic where the processor has it", "fp32", ("fp32", "fp16")),
        "threads": THREADS,
    }

    def missing(self, machine: Machine) -> Missing | None:
        return missing_packages(self.distributions, ("MNN",), "mnn")

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        payload = stem.with_name(stem.name + self.suffix)
        convert(program, payload, half=options["precision"] == "fp16")
        try:
            return Lowered(payload, read_placement(payload, calibration[0], options["precision"]))
        except (LoadError, RunError) as error:
            raise LowerError(f"MNN converts it, but cannot run the file: {error}") from error

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
    """Return what a processor computes in where weights have 16 bits; None for Arm, of which MNN does not tell."""
    from cross_backend.machine import Machine

    return "fp32 with fp16 weights" if Machine.here().arch == "x86_64" else None
