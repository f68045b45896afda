"""An ``.onnx`` file that no manifest describes: what it takes and returns, as ONNX Runtime reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.backends._foreign import artifact_of
from cross_backend.errors import LoadError, UnsupportedError, failing_as
from cross_backend.program.onnx_truth import plain_session
from cross_backend.tensors import TensorSpec

_DTYPES: Mapping[str, str] = {
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "tensor(bfloat16)": "bfloat16",
    "tensor(bool)": "bool",
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
}
"""ONNX Runtime's name → NumPy's."""


def describe(path: Path) -> Artifact:
    """Read it; see :attr:`ForeignFiles.describe`."""
    with failing_as(LoadError, f"ONNX Runtime cannot load {path.name}"):
        session = plain_session(path)
    inputs, outputs = _specs(path, session.get_inputs()), _specs(path, session.get_outputs())
    return artifact_of(path, "onnxruntime.cpu", inputs, outputs)


def _specs(path: Path, values: Iterable[Any]) -> tuple[TensorSpec, ...]:
    specs = []
    for value in values:
        if value.type not in _DTYPES:
            raise UnsupportedError(f"{path.name}: {value.name!r} is a {value.type}, and only tensors are given.")
        shape = tuple(n if isinstance(n, int) else str(n or f"dim{axis}") for axis, n in enumerate(value.shape))
        specs.append(TensorSpec(value.name, _DTYPES[value.type], shape))
    return tuple(specs)
