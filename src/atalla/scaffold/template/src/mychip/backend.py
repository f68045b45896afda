"""Backend: ``mychip`` in cross-backend: whole programs, compiled to one blob that an executor runs.

This file is imported whenever somebody lists backends, so that what is heavy is imported inside functions.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from cross_backend.artifact import Artifact
from cross_backend.backend import Backend, Calibration, Lowered, Missing, Option, Options, Session, Unavailable
from cross_backend.errors import LoadError, LowerError, UnsupportedError
from cross_backend.placement import Placement, count_operators
from cross_backend.records import Execution
from cross_backend.tensors import Tensors, to_numpy

from mychip.build import c_compiler
from mychip.errors import CompileError, MychipError

if TYPE_CHECKING:
    from cross_backend.machine import Machine
    from cross_backend.program.captured import Program

    from mychip.executors import Executor

_NOT_ONNX = "Mychip compiles PyTorch programs; it has no ONNX importer"


@final
class Mychip(Backend):
    """A program of which the chip lacks one operator is refused here; ``executorch.mychip`` takes its parts."""

    name = "mychip"
    title = "Mychip (C kernels)"
    suffix = ".mychip"
    distributions = ("mychip", "torch")
    runtime_modules = ("numpy", "mychip.executors")
    options = {"executor": Option("what runs it", "kernels", ("kernels", "simulator"), at="load")}
    limits = {"onnx_program": _NOT_ONNX, "dynamic_shapes": "a blob holds one size of every tensor"}
    otherwise = "executorch.mychip"

    def missing(self, machine: Machine) -> Missing | None:
        """Name what is missing here. CHIP: whether the driver and a device are there."""
        unavailable = missing_compiler("C", c_compiler()[0], "CC")
        return Missing(run=unavailable) if unavailable else None

    def depends_on(self, options: Options) -> str | None:
        """Name the compiler, so that what another version of it made is not served from the cache."""
        return compiler_digest()

    def lower(self, program: Program, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        """Compile, and read back from the file what is in it."""
        from cross_backend.program.captured import OnnxProgram

        from mychip.blob import write
        from mychip.compiler import compile_program, normalize
        from mychip.simulator import cycles

        if isinstance(program, OnnxProgram):
            raise UnsupportedError(_NOT_ONNX)
        try:
            blob = compile_program(normalize(program))
        except CompileError as error:
            raise LowerError(f"Mychip cannot run it: {error}") from error
        payload = stem.with_name(stem.name + self.suffix)
        payload.write_bytes(write(blob))
        placement = Placement(inside=count_operators(operations(payload.read_bytes())))
        return Lowered(payload, placement, {"cycles": cycles(blob)})

    def load(self, artifact: Artifact, options: Options) -> Session:
        """Return a session, which ``with`` opens."""
        return _MychipSession(artifact, options)

    def execution(self, artifact: Artifact, options: Options, inputs: Tensors) -> Execution | None:
        """Say of the simulator that its durations mean nothing: it is verified, and never ranked."""
        is_simulated = options["executor"] == "simulator"
        return Execution("Mychip", functional_only="simulated in NumPy") if is_simulated else None


class _MychipSession(Session):
    def _open(self) -> None:
        from mychip.executors import EXECUTORS

        try:
            self._executor = EXECUTORS[self.options["executor"]](self.artifact.payload_path.read_bytes())
        except (MychipError, OSError) as error:
            raise LoadError(f"Mychip cannot load {self.artifact.payload_path.name}: {error}") from error

    def _bind(self, inputs: Tensors) -> Callable[[], Sequence[Any]]:
        import numpy as np

        executor = self._executor
        # Copies: the caller may change its own afterwards.
        given = [np.array(to_numpy(one), np.float32, order="C") for one in inputs]
        shapes = [tuple(size for size in spec.shape if isinstance(size, int)) for spec in self.outputs]
        return lambda: [made.reshape(shape) for made, shape in zip(executor.run(given), shapes, strict=True)]

    def _close(self) -> None:
        del self._executor

    _executor: Executor


def missing_compiler(language: str, command: str, variable: str) -> Unavailable | None:
    """Return that there is no compiler of a language, which builds its library once; None where there is one."""
    if shutil.which(command):
        return None
    return Unavailable(f"needs a {language} compiler ({command})", f"install one, or name it in {variable}")


@functools.cache
def compiler_digest() -> str:
    """Digest the compiler's own files."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return f"mychip {hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()}"


def operations(data: bytes) -> Counter[str]:
    """Count a blob's instructions by name."""
    from mychip.blob import Op
    from mychip.reader import read

    return Counter(Op(one.op).name for one in read(data).instructions)
