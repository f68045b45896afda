"""Backend: ``executorch.mychip`` in cross-backend: the delegate, and portable kernels for what it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import Missing, Options
from cross_backend.backends.executorch import ExecuTorchBackend, PteSession
from cross_backend.errors import LoadError

from mychip.backend import compiler_digest, missing_compiler, operations
from mychip.build import c_compiler, cxx_compiler
from mychip.errors import MychipError

if TYPE_CHECKING:
    from cross_backend.machine import Machine


@final
class MychipDelegate(ExecuTorchBackend):
    """Lowering to a ``.pte``, reading it back, running and profiling it are the base class's."""

    name = "executorch.mychip"
    title = "Mychip delegate (C kernels)"
    distributions = ("executorch", "mychip", "torch")
    delegate_id = "MychipBackend"
    preload = ("executorch.exir", "mychip.delegate")
    rejections = "mychip.delegate:MychipPartitioner.refuse"
    limits = {**ExecuTorchBackend.limits, "dynamic_shapes": "a blob holds one size of every tensor"}

    def missing(self, machine: Machine) -> Missing | None:
        """Name what is missing here."""
        unavailable = missing_compiler("C", c_compiler()[0], "CC") or missing_compiler("C++", cxx_compiler()[0], "CXX")
        return super().missing(machine) or (Missing(run=unavailable) if unavailable else None)

    def depends_on(self, options: Options) -> str | None:
        """Name the compiler."""
        return compiler_digest()

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        """Return ours."""
        from mychip.delegate import MychipPartitioner

        return (MychipPartitioner(),)

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        """Count the instructions of one partition."""
        return operations(blob)

    def load(self, artifact: Artifact, options: Options) -> PteSession:
        """Return a session, which ``with`` opens."""
        return _MychipDelegateSession(artifact, options)


class _MychipDelegateSession(PteSession):
    def _open(self) -> None:
        from mychip.delegate import load

        try:
            load()
        except MychipError as error:
            raise LoadError(f"Mychip's delegate cannot be opened: {error}") from error
        super()._open()
