"""ONNX files: checked, made one file, and run once by ONNX's own reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.errors import CaptureError, UnavailableError, one_line
from cross_backend.tensors import TensorSpec, random_inputs


@dataclass(frozen=True)
class OnnxFile:
    """What a model file takes and gives."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    sample: Sequence[Any]
    """Seeded random inputs; free extents are 1."""
    expected: Sequence[Any]
    """What the reference evaluator gives for them."""


def read_onnx(path: Path, copy: Path) -> OnnxFile:
    """Check a model file and write it to ``copy`` with its weights inside.

    Raises:
        UnavailableError: the package onnx is missing.
        CaptureError: the file is damaged, or the reference evaluator cannot run it.
    """
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        remedy = "pip install 'cross-backend[onnxruntime]'"
        raise UnavailableError(f"reading {path.name} needs the package onnx", remedy) from None
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        raise CaptureError(f"{path} is damaged or not an ONNX model ({one_line(error)}).") from error
    onnx.save(model, copy)
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_spec(value) for value in model.graph.input if value.name not in initializers)
    outputs = tuple(_spec(value) for value in model.graph.output)
    sample = random_inputs(inputs)
    feed = {spec.name: tensor for spec, tensor in zip(inputs, sample, strict=True)}
    try:
        expected = ReferenceEvaluator(model).run(None, feed)
    except Exception as error:
        raise CaptureError(f"ONNX's reference evaluator cannot run {path.name}: {one_line(error)}") from error
    return OnnxFile(inputs, outputs, sample, expected)


def _spec(value: Any) -> TensorSpec:
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    dims = enumerate(tensor.shape.dim)
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"dim{i}" for i, dim in dims)
    return TensorSpec(value.name, dtype, shape)
