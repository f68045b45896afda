"""From a captured program to one ``.onnx`` file; the same for every provider."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cross_backend.artifact import Placement, count_operators
from cross_backend.backend import Lowered
from cross_backend.errors import LowerError, one_line
from cross_backend.program.capture import OnnxProgram, Program

OPSET = 20
SUFFIX = ".onnx"


def lower_to_onnx(program: Program, stem: Path) -> Lowered:
    """Write a program beside ``stem`` and read back what the file holds.

    Raises:
        LowerError: with the exporter's reason.
    """
    import onnx

    payload = stem.with_name(stem.name + SUFFIX)
    if isinstance(program, OnnxProgram):
        payload.write_bytes(program.path.read_bytes())
    else:
        export_onnx(program, payload)
    graph = onnx.load(payload, load_external_data=False).graph
    inside = count_operators(Counter(node.op_type for node in graph.node))
    return Lowered(payload, Placement(inside=inside, constant_bytes=sum(t.ByteSize() for t in graph.initializer)))


def export_onnx(program: Any, path: Path) -> None:
    """Write a captured program as one ONNX file; programs that need it are decomposed first.

    Raises:
        LowerError: with the exporter's reason.
    """
    import torch

    try:
        try:
            model = torch.onnx.export(program, dynamo=True, opset_version=OPSET, verbose=False)
        except torch.onnx.errors.OnnxExporterError:
            model = torch.onnx.export(program.run_decompositions(), dynamo=True, opset_version=OPSET, verbose=False)
        if model is None:
            raise LowerError("torch.onnx gave no model.")
        model.save(path, external_data=False)
    except LowerError:
        raise
    except Exception as error:
        raise LowerError(f"torch.onnx cannot export it: {one_line(_first_cause(error))}") from error


def _first_cause(error: BaseException) -> BaseException:
    """Return the exception that others came of: the exporter's own says which step failed, and not at what."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
