"""executorch.coreml: Apple's Core ML, on the Neural Engine, GPU or CPU; lowers anywhere, runs on Apple's systems."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, final

from cross_backend.backend import Missing, Option, Options, Unavailable
from cross_backend.backends.executorch._pte import ExecuTorchBackend
from cross_backend.errors import LowerError
from cross_backend.machine import Machine
from cross_backend.program.state import state_of

_UNITS = {"all": "ALL", "cpu": "CPU_ONLY", "cpu_gpu": "CPU_AND_GPU", "cpu_ne": "CPU_AND_NE"}


@final
class CoreMl(ExecuTorchBackend):
    """float16 unless asked otherwise: the Neural Engine computes in nothing wider."""

    name = "executorch.coreml"
    title = "Core ML (Apple)"
    delegate_id = "CoreMLBackend"
    preload = ("executorch.exir", "executorch.backends.apple.coreml.partition")
    distributions: ClassVar[tuple[str, ...]] = ("executorch", "torch", "coremltools")
    extra = "coreml"
    options = {
        "compute_unit": Option("which processors Core ML may use", "all", tuple(_UNITS)),
        "precision": Option("arithmetic inside Core ML", "fp16", ("fp16", "fp32", "int8")),
    }

    def missing(self, machine: Machine) -> Missing | None:
        absent = super().missing(machine)
        if absent is not None or machine.system == "macos":
            return absent
        return Missing(
            run=Unavailable(f"runs on Apple's systems only; this is {machine.system}", "run the file on iOS or macOS")
        )

    def quantizer(self, options: Options) -> Any:
        import torch
        from coremltools.optimize.torch.quantization.quantization_config import LinearQuantizerConfig
        from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer

        settings = {
            "quantization_scheme": "symmetric",
            "activation_dtype": torch.quint8,
            "weight_dtype": torch.qint8,
            "weight_per_channel": True,
        }
        return CoreMLQuantizer(LinearQuantizerConfig.from_dict({"global_config": settings}))

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        import coremltools
        from executorch.backends.apple.coreml.compiler import CoreMLBackend
        from executorch.backends.apple.coreml.partition import CoreMLPartitioner

        systems = coremltools.target
        at_least = systems.iOS18 if state_of(program) else systems.iOS17 if options["precision"] == "int8" else None
        precision = coremltools.precision.FLOAT32 if options["precision"] == "fp32" else coremltools.precision.FLOAT16
        specs = CoreMLBackend.generate_compile_specs(
            compute_unit=coremltools.ComputeUnit[_UNITS[options["compute_unit"]]],
            compute_precision=precision,
            minimum_deployment_target=at_least,
        )
        return (CoreMLPartitioner(compile_specs=specs),)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        """The blob is a folder that was flattened: a ``.mlpackage`` with the program as a protocol buffer."""
        import coremltools
        from executorch.backends.apple.coreml import executorchcoreml

        with tempfile.TemporaryDirectory() as name:
            if not executorchcoreml.unflatten_directory_contents(blob, name):
                raise LowerError("the Core ML blob cannot be unpacked.")
            package = next(Path(name).rglob("*.mlpackage"), None)
            if package is None:
                raise LowerError("the Core ML blob holds no .mlpackage.")
            program = coremltools.models.utils.load_spec(str(package)).mlProgram
        blocks = [block for function in program.functions.values() for block in function.block_specializations.values()]
        return Counter(op.type for block in blocks for op in block.operations if op.type != "const")

    def unlogged(self, operator: str) -> str | None:
        from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY

        if _TORCH_OPS_REGISTRY.get_func(operator.partition(".")[0]) is None:
            return super().unlogged(operator)
        return "refused by its partitioner, for its arguments or for a known fault of Core ML's converter"
