"""An ONNX file as a payload: shared by the backends that run one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from cross_backend.backend import Lowered
from cross_backend.errors import LowerError, UnsupportedError, failing_as
from cross_backend.placement import Placement, count_operators
from cross_backend.program.capture import ports_of
from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.onnx_export import export_onnx
from cross_backend.tensors import TensorSpec

SUFFIX = ".onnx"
TO_LOWER = ("onnx", "onnxscript", "torch")
"""What writes the payload; no runtime takes part in that."""


REMEDY = "Convert the model to float32 (module.float())."
"""What to do where a runtime has no kernel for an element type."""
_WITHOUT_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(")


def operator_without_kernel(text: str) -> str | None:
    """Return the operator for whose element types ONNX Runtime says that it has no kernel."""
    found = _WITHOUT_KERNEL.search(text)
    return found[1] if found else None


def _check_outputs(program: Any) -> None:
    """Refuse complex outputs, which the exporter makes pairs of real numbers.

    Raises:
        UnsupportedError: there is one.
    """
    for name, value in ports_of(program)[1]:
        if value is not None and value.is_complex():
            raise UnsupportedError(f"ONNX programs return no complex tensors: return torch.view_as_real of {name}.")


def lower_to_onnx(program: Program, stem: Path) -> Lowered:
    """Write the file, and read back what it holds.

    Raises:
        UnsupportedError: a tensor has a type that ONNX lacks.
        LowerError: the exporter failed, or a file that was given is damaged.
    """
    payload = write_onnx(program, stem)
    return Lowered(payload, read_onnx_placement(payload))


def write_onnx(program: Program, stem: Path) -> Path:
    """Write a program as an ONNX file; one that came as such a file stays as it is."""
    payload = stem.with_name(stem.name + SUFFIX)
    if isinstance(program, OnnxProgram):
        payload.write_bytes(program.path.read_bytes())
    else:
        _check_outputs(program)
        export_onnx(program, payload)
    return payload


def read_onnx_placement(payload: Path) -> Placement:
    """Count what a file holds.

    Raises:
        LowerError: it is damaged.
    """
    import onnx

    with failing_as(LowerError, f"{payload.name} is damaged or not an ONNX model"):
        graph = onnx.load(payload, load_external_data=False).graph
    inside = count_operators(Counter(node.op_type for node in graph.node))
    return Placement(inside=inside, constant_bytes=sum(t.ByteSize() for t in graph.initializer))


def tensors_of_file(path: Path) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Read the inputs and outputs of an ONNX file; an extent that is free is a text.

    Raises:
        LowerError: the file is damaged.
    """
    import onnx

    with failing_as(LowerError, f"{path.name} is damaged or not an ONNX model"):
        graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs, outputs = ([_spec(value) for value in values] for values in (graph.input, graph.output))
    return [spec for spec in inputs if spec.name not in constants], outputs


def _spec(value: Any) -> TensorSpec:
    import onnx

    kind = value.type.tensor_type
    dtype = str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim)
    return TensorSpec(value.name, dtype, shape)
