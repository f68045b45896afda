"""What IREE's targets share: packages, lowering and reading back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.backend import Backend, Calibration, Lowered, Missing, Options
from cross_backend.backends._packages import missing_packages, spaces_in_path
from cross_backend.backends.iree._lower import write_module
from cross_backend.backends.iree._placement import read_placement
from cross_backend.backends.iree._types import Types, types_in

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.machine import Machine
    from cross_backend.program.captured import Program


class IreeBackend(Backend):
    """One device of IREE's."""

    suffix = ".vmfb"
    distributions = ("iree-base-compiler", "iree-base-runtime", "iree-turbine", "onnx", "torch")
    preload = ("iree.turbine.aot",)
    runtime_modules = ("iree.runtime",)

    def missing(self, machine: Machine) -> Missing | None:
        absent = missing_packages(self.distributions, ("iree-base-runtime",), "iree")
        return absent or Missing(lower=spaces_in_path()) or None

    def code_in(self, artifact: Artifact) -> str | None:
        return "compiled machine code"

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        payload = stem.with_name(stem.name + self.suffix)
        flags, notes = self._target(options, types_in(program))
        write_module(program, payload, flags, notes)
        return Lowered(payload, read_placement(payload))

    @abstractmethod
    def _target(self, options: Options, types: Types) -> tuple[Sequence[str], dict[str, str]]:
        """Return the compiler's flags, and notes that a session needs to recognise its device.

        Raises:
            UnsupportedError: the device cannot take such types.
        """
