"""litert: Google's LiteRT with its XNNPACK delegate, on the processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from cross_backend.artifact import Artifact
from cross_backend.backend import (
    THREADS,
    Backend,
    Calibration,
    ForeignFiles,
    Lowered,
    Missing,
    Option,
    Options,
    Session,
)
from cross_backend.backends._packages import absent_packages, missing_toolchain
from cross_backend.backends._scripts import check_float32
from cross_backend.backends.litert._convert import convert
from cross_backend.backends.litert._foreign import describe
from cross_backend.backends.litert._placement import read_placement
from cross_backend.backends.litert._quantize import quantize
from cross_backend.backends.litert._session import LiteRtSession
from cross_backend.errors import LoadError, UnsupportedError
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.records import Execution
from cross_backend.tensors import Tensors

if TYPE_CHECKING:
    from cross_backend.machine import Machine

_TOOLCHAIN = "litert"
_ARITHMETIC = {"fp32": "fp32", "fp16": "fp32 with fp16 weights"}
"""Precision → what the processor computes in, where that is one."""


@final
class LiteRt(Backend):
    """The converter lives in a toolchain; the small runtime runs its files beside the other runtimes."""

    name = "litert"
    title = "Google LiteRT"
    suffix = ".tflite"
    distributions = ("ai-edge-litert",)
    toolchain = _TOOLCHAIN
    preload = ("litert_torch",)
    runtime_modules = ("ai_edge_litert.interpreter",)
    limits = {
        "dynamic_shapes": "its converter knows free extents of few operators only",
        "onnx_program": "its converter reads PyTorch programs only",
    }
    takes_state = "tensors"  # its converter leaves out what a program writes into its own memory
    foreign = ForeignFiles(".tflite", describe)
    lacks = {"bf16": "its converter widens bfloat16 to float32"}
    options = {
        "precision": Option(
            "storage of weights (fp16), or weights and arithmetic of what XNNPACK takes in whole numbers",
            "fp32",
            ("fp32", "fp16", "int8", "int8dyn", "int4w"),
        ),
        "threads": THREADS,
    }

    @property
    def run_toolchain(self) -> str | None:
        """Its runtime needs no toolchain."""
        return None

    def missing(self, machine: Machine) -> Missing | None:
        return Missing(missing_toolchain(_TOOLCHAIN), absent_packages(self.distributions, "litert")) or None

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        if isinstance(program, OnnxProgram):
            raise UnsupportedError(f"{self.name} cannot take ONNX files: {self.limits['onnx_program']}.")
        payload = stem.with_name(stem.name + self.suffix)
        try:
            graph, arithmetic = convert(program, payload), None
            if options["precision"] != "fp32":
                graph, arithmetic = quantize(payload, options["precision"], calibration)
            return Lowered(payload, replace(read_placement(payload, graph), arithmetic=arithmetic))
        except LoadError as error:
            raise UnsupportedError(f"LiteRT's runtime cannot run what its converter wrote: {error}") from error

    def reproduction(self, options: Options) -> Sequence[str]:
        check_float32(self.title, options)
        return [
            "import litert_torch",
            "from ai_edge_litert.interpreter import Interpreter",
            "file = litert_torch.convert(program.module(), inputs).model_content()",
            "interpreter = Interpreter(model_content=file)",
            "interpreter.allocate_tensors()",
            "for port, x in zip(interpreter.get_input_details(), inputs):",
            '    interpreter.set_tensor(port["index"], x.numpy().astype(port["dtype"]))',
            "interpreter.invoke()",
            'got = [interpreter.get_tensor(port["index"]) for port in interpreter.get_output_details()]',
            "got = [torch.from_numpy(x).to(want.dtype) for x, want in zip(got, expected)]",
        ]

    def load(self, artifact: Artifact, options: Options) -> Session:
        return LiteRtSession(artifact, options)

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Say what float16 weights are computed in: XNNPACK widens them when it opens the file."""
        return Execution("CPU", nodes=1.0, precision=_ARITHMETIC.get(options["precision"]))
