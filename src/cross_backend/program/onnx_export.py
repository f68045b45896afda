"""ONNX export: a captured program written as one ``.onnx`` file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cross_backend.errors import LowerError, one_line

OPSET = 20


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
