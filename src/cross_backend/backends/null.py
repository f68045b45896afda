"""null: does no work and hands out zeros; what remains when it is measured is the cost of measuring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, final

from cross_backend.artifact import Artifact
from cross_backend.backend import Backend, Calibration, Lowered, Missing, Options, Session
from cross_backend.errors import LoadError
from cross_backend.placement import Operators, Placement
from cross_backend.tensors import Tensors, dtype_of

if TYPE_CHECKING:
    from cross_backend.machine import Machine
    from cross_backend.program.captured import Program

_PAYLOAD = "null\n"


@final
class Null(Backend):
    """For the house's own tests and the harness overhead; its outputs never pass verification."""

    name = "null"
    title = "Null (no work)"
    suffix = ".null"
    distributions = ()
    runtime_modules = ("numpy",)

    def missing(self, machine: Machine) -> Missing | None:
        return None

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        payload = stem.with_name(stem.name + self.suffix)
        payload.write_text(_PAYLOAD)
        return Lowered(payload, Placement(inside=(Operators("null", 1),)))

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _NullSession(artifact, options)


class _NullSession(Session):
    def _open(self) -> None:
        if self.artifact.payload_path.read_bytes() != _PAYLOAD.encode():
            raise LoadError(f"{self.artifact.payload_path} is not a null payload.")

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import numpy as np

        outputs = [
            np.zeros([n if isinstance(n, int) else 1 for n in spec.shape], dtype_of(spec.dtype))
            for spec in self.outputs
        ]
        return lambda: outputs
