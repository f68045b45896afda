"""An ``.onnx`` file that no manifest describes: what it takes and gives, as ONNX Runtime reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact, Placement, digest_path
from cross_backend.errors import LoadError, UnsupportedError, one_line
from cross_backend.tensors import TensorSpec

_DTYPES: Mapping[str, str] = {
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "tensor(bool)": "bool",
    "tensor(double)": "float64",
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
}
"""ONNX Runtime's name → NumPy's."""


def describe(path: Path) -> Artifact:
    """Read it; see :meth:`Backend.describe`."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise LoadError(f"ONNX Runtime cannot load {path.name}: {one_line(error)}") from error
    return Artifact(
        folder=path.parent,
        name=path.stem,
        target="onnxruntime.cpu",
        workload=path.stem,
        program="",
        payload=path.name,
        sha256=digest_path(path),
        size_bytes=path.stat().st_size,
        inputs=_specs(path, session.get_inputs()),
        outputs=_specs(path, session.get_outputs()),
        placement=Placement(),
        versions={},
        export_s=0.0,
    )


def _specs(path: Path, values: Iterable[Any]) -> tuple[TensorSpec, ...]:
    specs = []
    for value in values:
        if value.type not in _DTYPES:
            raise UnsupportedError(f"{path.name}: {value.name!r} is a {value.type}, and only tensors are given.")
        shape = tuple(n if isinstance(n, int) else str(n or f"dim{axis}") for axis, n in enumerate(value.shape))
        specs.append(TensorSpec(value.name, _DTYPES[value.type], shape))
    return tuple(specs)
