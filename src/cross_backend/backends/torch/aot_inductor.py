"""torch.aot_inductor: the captured program compiled ahead of time to a shared library for this processor."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Calibration, Keeper, Lowered, Missing, Options, Session
from cross_backend.backends.torch._base import PRECISION, TorchBackend, TorchSession, missing_compiler, prepared, script
from cross_backend.backends.torch._buffers import Chained
from cross_backend.backends.torch._device import device_option, moved_with_inputs, require, synchronize
from cross_backend.errors import LowerError, failing_as
from cross_backend.placement import Placement, count_operators
from cross_backend.program.captured import Program
from cross_backend.program.pt2 import save_pt2

if TYPE_CHECKING:
    from cross_backend.machine import Machine


class _PackageSession(TorchSession):
    """A shared library made by AOTInductor."""

    def _load(self, path: Path) -> Callable[..., Any]:
        from torch._inductor import aoti_load_package

        function: Callable[..., Any] = aoti_load_package(str(path))
        return function

    def _arguments(self, leaves: list[Any]) -> Any:
        return leaves

    def keeper(self, initial: Sequence[Any]) -> Keeper:
        """Hand the state on as tensors: AOTInductor may fold a small buffer that the program changes."""
        return Chained(self._function, self._device, synchronize(self._device) or _done, initial)


def _done() -> None:
    """Return: the processor's calls are done when they return."""


@final
class TorchAotInductor(TorchBackend):
    """The exported graph compiled ahead of time to a shared library for this processor."""

    name = "torch.aot_inductor"
    title = "PyTorch AOTInductor"
    options = {"device": device_option("cpu", "cuda", at_lowering=True), "precision": PRECISION, "threads": THREADS}
    payload_depends_on_cpu = True
    takes_state = "tensors"

    def missing(self, machine: Machine) -> Missing | None:
        return super().missing(machine) or Missing(lower=missing_compiler()) or None

    def reproduction(self, options: Options) -> Sequence[str]:
        made = "torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))"
        return ["import torch._inductor", *script(self.title, options, made)]

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        from torch._inductor import aoti_compile_and_package

        require(options["device"])
        payload = stem.with_name(stem.name + self.suffix)
        with failing_as(LowerError, "AOTInductor failed"):
            own = prepared(program, options)
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
