"""onnxruntime.*: one final class for each row of the table of providers."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from cross_backend.artifact import Artifact
from cross_backend.backend import Backend, Calibration, ForeignFiles, Lowered, Missing, Options, Recorded, Session
from cross_backend.backends._onnx import TO_LOWER, read_onnx_placement, write_onnx
from cross_backend.backends._scripts import ARRAYS, check_float32
from cross_backend.backends.onnxruntime._foreign import describe
from cross_backend.backends.onnxruntime._providers import PROVIDERS, Provider
from cross_backend.backends.onnxruntime._quantize import quantize
from cross_backend.backends.onnxruntime._session import OnnxRuntimeSession
from cross_backend.backends.onnxruntime._state import mark_in_place
from cross_backend.backends.onnxruntime._trace import execution_of, runs_of, timings_of
from cross_backend.errors import UnsupportedError
from cross_backend.names.precisions import QUANTISED
from cross_backend.program.captured import Program
from cross_backend.program.onnx_export import OPSET
from cross_backend.records import Execution
from cross_backend.tensors import Tensors
from cross_backend.toolchains import find_toolchain

if TYPE_CHECKING:
    from cross_backend.machine import Machine

_OBSERVED_RUNS = 5
_OBSERVED_S = 2.0
"""Runs of which placement is read, fewer where they are slow; one always."""


@contextlib.contextmanager
def _traced(provider: Provider, artifact: Artifact, options: Options) -> Iterator[OnnxRuntimeSession]:
    """Open a session that is profiled; its file is gone afterwards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        OnnxRuntimeSession(provider, artifact, options, Path(folder) / "trace") as session,
    ):
        yield session


class OnnxRuntimeBackend(Backend):
    """What all providers share; a subclass names its row of the table, which says the rest."""

    provider: ClassVar[Provider]
    suffix = ".onnx"
    takes_state = "tensors"
    distributions = ("onnxruntime", *TO_LOWER)
    preload = ("torch.onnx", "onnxscript")
    runtime_modules = ("onnxruntime",)

    def __init_subclass__(cls) -> None:
        cls.name = f"onnxruntime.{cls.provider.name}"
        cls.title = f"ONNX Runtime ({cls.provider.device})"
        cls.options = cls.provider.options
        cls.lifecycle = cls.provider.lifecycle
        cls.payload_of = None if cls.provider.name == "cpu" else "onnxruntime.cpu"

    @property
    def run_toolchain(self) -> str | None:
        """One that was added comes first: all builds of ONNX Runtime install into one folder, and the last one wins."""
        toolchain = self.provider.toolchain
        added = toolchain is not None and find_toolchain(toolchain).added
        return toolchain if added or not self.provider.is_installed else None

    def missing(self, machine: Machine) -> Missing | None:
        return self.provider.missing(machine, Path(os.environ.get("SYSTEMDRIVE", "") + os.sep))

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        """Write what every provider runs, quantised where that is asked for, and read back what the file holds."""
        payload = write_onnx(program, stem)
        precision = options.get("precision")
        arithmetic = quantize(payload, precision, calibration) if precision in QUANTISED else None
        mark_in_place(payload)
        return Lowered(payload, replace(read_onnx_placement(payload), arithmetic=arithmetic))

    def reproduction(self, options: Options) -> Sequence[str]:
        if self.provider.plugin:
            return super().reproduction(options)
        check_float32(self.title, options)
        settings = dict(self.provider.settings(options))
        providers = [(self.provider.identifier, settings) if settings else self.provider.identifier]
        return [
            "import onnxruntime",
            f"exported = torch.onnx.export(program, dynamo=True, opset_version={OPSET}, verbose=False)",
            "file = exported.model_proto.SerializeToString()",
            f"session = onnxruntime.InferenceSession(file, providers={providers})",
            "names = [one.name for one in session.get_inputs()]",
            f"got = session.run(None, dict(zip(names, {ARRAYS})))",
        ]

    def load(self, artifact: Artifact, options: Options) -> Session:
        if artifact.target.partition("?")[0] != self.name:  # a file of the cache, which says who wrote it
            artifact = replace(artifact, target=self.name)
        return OnnxRuntimeSession(self.provider, artifact, options)

    def record(self, artifact: Artifact, options: Options, inputs: Tensors, runs: int) -> Recorded:
        if self.provider.is_asynchronous:
            raise UnsupportedError(f"{self.name} only hands work over to the device; its profile would tell nothing.")
        with _traced(self.provider, artifact, options) as session:
            run = session.bind(inputs)
            for _ in range(runs + 1):
                run()
            events = session.end_trace()
        return [timings_of(nodes) for nodes in runs_of(events)][1:]

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        if self.provider.name == "cpu":
            return None
        with _traced(self.provider, artifact, options) as session:
            run = session.bind(inputs)
            run()
            started = time.perf_counter()
            for _ in range(_OBSERVED_RUNS):
                run()
                if time.perf_counter() - started > _OBSERVED_S:
                    break
            assigned, emulated, events = session.assigned(), session.is_emulated, session.end_trace()
        precision = str(options.get("precision", "fp32"))
        return execution_of(self.provider, list(runs_of(events))[1:], assigned, precision, is_emulated=emulated)


@final
class Cpu(OnnxRuntimeBackend):
    """ONNX Runtime's own kernels on the processor; it writes the payload of all and reads those of others."""

    provider = PROVIDERS["cpu"]
    foreign = ForeignFiles(".onnx", describe)


def _target(provider: str) -> type[OnnxRuntimeBackend]:
    """Return the final class of a row of the table."""
    return final(type(provider, (OnnxRuntimeBackend,), {"provider": PROVIDERS[provider]}))


Acl = _target("acl")
CoreMl = _target("coreml")
Cuda = _target("cuda")
DirectMl = _target("directml")
Dnnl = _target("dnnl")
MiGraphX = _target("migraphx")
OpenVino = _target("openvino")
Qnn = _target("qnn")
Rocm = _target("rocm")
TensorRt = _target("tensorrt")
WebGpu = _target("webgpu")
Xnnpack = _target("xnnpack")
