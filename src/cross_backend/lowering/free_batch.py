"""Free batch: write a workload as one ONNX file that takes any batch size, checked before anyone sees it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cache import Cache
from cross_backend.errors import CaptureError, LowerError, failing_as
from cross_backend.program.capture import capture, example_inputs
from cross_backend.program.flattening import flat_call, flat_tensors, flatten
from cross_backend.program.layout import row_major
from cross_backend.program.onnx_export import export_onnx
from cross_backend.program.pt2 import load_pt2
from cross_backend.program.reference import run_eagerly
from cross_backend.program.writing import check_has_inputs
from cross_backend.tensors import to_numpy
from cross_backend.verify.compare import compare_outputs
from cross_backend.worker.question import Answering, Question
from cross_backend.workloads import Workload, find_workload
from cross_backend.workloads.batching import batched, fix_batch, has_free_batch

if TYPE_CHECKING:
    from torch.export import ExportedProgram

CHECKED = (1, 3)
"""Batch sizes at which a file must agree with eager PyTorch; torch saw neither while it exported."""
_TRACED = 2
"""Rows that torch sees: with one it would take the extent for fixed."""
_DIMENSION = "batch"


@dataclass(frozen=True)
class WriteOnnx(Question[int]):
    """Write a workload as one ONNX file of any batch size."""

    model: str
    weights: str | None
    path: Path
    cache: Path

    def answer(self, _process: Answering) -> int:
        """Return its size in bytes."""
        return write_onnx(self.model, self.weights, self.path, Cache(self.cache))


def write_onnx(model: str, weights: str | None, path: Path, cache: Cache) -> int:
    """Write a workload as one ONNX file of any batch size, if it is right; return its size in bytes."""
    workload = find_workload(model, weights).build()
    program, runs = _program(workload)
    with cache.scratch() as folder:
        file = folder / "model.onnx"
        export_onnx(program, file)
        _name_batch(file)
        for batch, (inputs, expected) in runs.items():
            _check(file, workload.name, batch, inputs, expected)
        beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            shutil.copyfile(file, beside)
            size_bytes = beside.stat().st_size
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    return size_bytes


_Runs = dict[int, tuple[Sequence[Any], Sequence[Any]]]
"""Batch size → inputs and what eager PyTorch returns for them, flat NumPy arrays."""


def _program(workload: Workload) -> tuple[ExportedProgram, _Runs]:
    """Capture with a free batch dimension, and run the original eagerly."""
    if isinstance(workload.model, Path):
        program = flatten(load_pt2(workload.model))
        if not has_free_batch(program):
            raise CaptureError(
                f"{workload.model.name} was exported with a fixed batch; export it again with a free batch dimension "
                "(torch.export.export(…, dynamic_shapes=…)), or give the model itself: path/to/file.py:function."
            )
        module: Any = program.module()
        given = {n: fix_batch(program, example_inputs(program), n, workload.model.name)[0] for n in CHECKED}
    else:
        captured = capture_free(workload)
        program, module = flatten(captured), flat_call(workload.model, captured)
        rows = {n: batched(workload, n) for n in CHECKED}
        given = {n: flat_tensors(captured, many.inputs, many.kwargs) for n, many in rows.items()}
    check_has_inputs(workload.name, given[1])
    return program, {n: (_flat(inputs), _flat(run_eagerly(module, inputs))) for n, inputs in given.items()}


def capture_free(workload: Workload) -> ExportedProgram:
    """Capture a module with a free batch dimension.

    Raises:
        CaptureError: something in it fixes the batch; says what.
    """
    import torch
    from torch.utils import _pytree

    assert isinstance(workload.model, torch.nn.Module)
    rows = batched(workload, _TRACED)
    inputs, (kwargs,) = row_major(rows.inputs), row_major([rows.kwargs])
    shapes, batch = torch.export.ShapesCollection(), torch.export.Dim(_DIMENSION)
    for leaf in _pytree.tree_leaves((inputs, kwargs)):
        if isinstance(leaf, torch.Tensor):
            shapes[leaf] = {0: batch}
    try:
        return capture(
            workload.model, inputs, shapes.dynamic_shapes(workload.model, inputs, kwargs or None), kwargs=kwargs
        )
    except CaptureError as error:
        raise CaptureError(f"{workload.name} cannot take a free batch dimension: {_why(error)}") from error


def _why(error: CaptureError) -> str:
    """Find the line of torch's report that says what fixes the extent."""
    lines = [line.strip() for line in str(error.__cause__).splitlines()]
    return next((line.removeprefix("- ") for line in lines if line.startswith("- ")), str(error))


def _flat(tensors: Any) -> list[Any]:
    from torch.utils import _pytree

    return [to_numpy(tensor) for tensor in _pytree.tree_leaves(tensors)]


def _name_batch(file: Path) -> None:
    """Call the free dimension by its name; the exporter keeps torch's own, ``s77``."""
    import onnx

    model = onnx.load(file)
    leading = {value.type.tensor_type.shape.dim[0].dim_param for value in model.graph.input}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and dim.dim_param in leading:
                dim.dim_param = _DIMENSION
    onnx.save(model, file)


def _check(file: Path, name: str, batch: int, inputs: Sequence[Any], expected: Sequence[Any]) -> None:
    import onnxruntime

    with failing_as(LowerError, f"the ONNX file of {name} does not run with a batch of {batch}"):
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        feed = {given.name: tensor for given, tensor in zip(session.get_inputs(), inputs, strict=True)}
        outputs = session.run(None, feed)
    found = compare_outputs({"expected": expected}, [outputs])
    if not found.verdict:
        raise LowerError(f"the ONNX file of {name} is wrong at a batch of {batch}: {found.reason}.")
