"""A ``.pte`` that no manifest describes: what its method takes and returns, and whose delegates are in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.backends._foreign import artifact_of
from cross_backend.backends.executorch._bundled import DTYPES, METHOD, delegates_in, target_of
from cross_backend.backends.executorch._pte import native_runtime
from cross_backend.errors import LoadError, UnsupportedError, failing_as
from cross_backend.tensors import TensorSpec


def describe(path: Path) -> Artifact:
    """Read it with the runtime's own reader; see :attr:`ForeignFiles.describe`."""
    runtime = native_runtime()
    with failing_as(LoadError, f"ExecuTorch cannot load {path.name}"):
        program = runtime._load_program(str(path), program_verification=runtime.Verification.InternalConsistency)
        methods = [program.get_method_name(index) for index in range(program.num_methods())]
    if METHOD not in methods:
        raise UnsupportedError(f"{path.name} has no method {METHOD}; it has {', '.join(methods) or 'none'}.")
    meta = program.method_meta(METHOD)
    delegates = delegates_in(path.read_bytes())
    inputs = _specs(path, "input", meta.num_inputs(), meta.input_tensor_meta)
    outputs = _specs(path, "output", meta.num_outputs(), meta.output_tensor_meta)
    return artifact_of(path, target_of(delegates), inputs, outputs, delegates)


def _specs(path: Path, kind: str, count: int, meta_of: Any) -> tuple[TensorSpec, ...]:
    specs = []
    for index in range(count):
        try:
            meta = meta_of(index)
        except Exception as error:
            raise UnsupportedError(f"{path.name}: {kind} {index} is no tensor, and only tensors are given.") from error
        if meta.dtype() not in DTYPES:
            raise UnsupportedError(f"{path.name}: {kind} {index} is of type {meta.dtype()}, which NumPy lacks.")
        specs.append(TensorSpec(f"{kind}_{index}", DTYPES[meta.dtype()], tuple(meta.sizes())))
    return tuple(specs)
