"""executorch.atalla: our own accelerator as an ExecuTorch delegate; its runtime is compiled here on first use."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import THREADS, Missing, Option, Options, Unavailable
from cross_backend.backends._atalla import (
    NO_SCRIPT,
    PRECISION,
    compiler_digest,
    instruction_arithmetic,
    instruction_counts,
    missing_kernels,
)
from cross_backend.backends._quantize import int8_quantizer
from cross_backend.backends.executorch._pte import ExecuTorchBackend, PteSession
from cross_backend.errors import LoadError, UnsupportedError, one_line
from cross_backend.placement import Arithmetic

if TYPE_CHECKING:
    from cross_backend.machine import Machine


@final
class AtallaDelegate(ExecuTorchBackend):
    """Blobs for the accelerator's C kernels; what has no instruction runs on portable kernels."""

    name = "executorch.atalla"
    title = "Atalla delegate (CPU kernels)"
    delegate_id = "AtallaBackend"
    preload = ("executorch.exir", "atalla.executorch.delegate")
    rejections = "atalla.executorch.delegate:AtallaPartitioner.refuse"
    options = {
        "exact": Option("never reorder sums: no convolution by Winograd's", "no", ("no", "yes")),
        "precision": PRECISION,
        "threads": THREADS,
    }
    limits = {**ExecuTorchBackend.limits, "dynamic_shapes": "a delegated blob holds one size of every tensor"}

    def missing(self, machine: Machine) -> Missing | None:
        return super().missing(machine) or Missing(run=missing_kernels() or _missing_runtime()) or None

    def depends_on(self, options: Options) -> str | None:
        return compiler_digest()

    def reproduction(self, options: Options) -> Sequence[str]:
        raise UnsupportedError(NO_SCRIPT)

    def quantizer(self, options: Options) -> Any:
        return int8_quantizer()

    def partitioners(self, program: Any, options: Options) -> Sequence[Any]:
        from atalla.executorch.delegate import AtallaPartitioner

        return (AtallaPartitioner(exact=options["exact"] == "yes", bf16=options["precision"] == "bf16"),)

    def beyond_core(self) -> Sequence[Any]:
        from atalla.executorch.delegate import beyond_core

        return beyond_core()

    def blob_operators(self, blob: bytes) -> Mapping[str, int]:
        return instruction_counts(blob)

    def blob_arithmetic(self, blob: bytes) -> Arithmetic:
        return instruction_arithmetic(blob)

    def load(self, artifact: Artifact, options: Options) -> PteSession:
        return _AtallaDelegateSession(artifact, options)


def _missing_runtime() -> Unavailable | None:
    """Return that the delegate's runtime was not built, and cannot be."""
    from atalla import AtallaError
    from atalla.executorch.build_delegate import compiler, delegate_path

    try:
        if delegate_path().exists() or shutil.which(compiler()[0]):
            return None
    except AtallaError as error:
        return Unavailable(one_line(error), "use atalla, which needs no ExecuTorch")
    reason = f"needs a C++ compiler ({compiler()[0]}) once, to build the delegate's runtime"
    return Unavailable(reason, "install one (Debian: apt-get install g++), or name it in CXX")


class _AtallaDelegateSession(PteSession):
    def _open(self) -> None:
        from atalla import AtallaError
        from atalla.executorch.build_delegate import load, set_threads

        try:
            load()
            set_threads(self.options["threads"] or 1)
        except AtallaError as error:
            raise LoadError(f"Atalla's delegate cannot be opened: {one_line(error)}") from error
        super()._open()
