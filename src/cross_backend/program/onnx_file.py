"""ONNX files: checked, made one file, and run by what is known to be right (``onnx_truth``).

ONNX's evaluator is plain NumPy: ResNet-50 takes it seconds a row. Of a batch it therefore runs only the first and the
last row; all rows come from ONNX Runtime without any optimisation, which must agree in these two.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cross_backend.errors import ArtifactError, CaptureError, UnavailableError, failing_as, one_line
from cross_backend.foreign_files import open_regular
from cross_backend.program.onnx_probes import OnnxGraph, onnx_probes, work_of
from cross_backend.program.onnx_truth import Truth, find_truth, runtime_of
from cross_backend.tensors import TensorSpec, random_inputs
from cross_backend.verify.further import PROBE, further_groups
from cross_backend.verify.sample import make_sample
from cross_backend.workloads.batching import check_memory, check_row, numpy_rows


@dataclass(frozen=True)
class OnnxFile:
    """What a model file takes and returns."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    sample: Mapping[str, Sequence[Any]]
    """What ``sample.make_sample`` returns for seeded random inputs, free extents 1."""
    reference: str
    """Who gave the expected outputs."""
    run: Callable[[Sequence[Any]], list[Any]]
    """The reference on other inputs, in order; it raises CaptureError where it fails."""
    probes: Sequence[str]
    """Names of the further inputs in the sample."""
    dropped: Mapping[str, str]
    """Name of a probe → why it was dropped."""


def read_onnx(path: Path, copy: Path, batch: int | None = None) -> OnnxFile:
    """Check a model file and write it to ``copy`` with its weights inside.

    Args:
        path: of the file.
        copy: where to write it.
        batch: extent for the free leading dimensions of its inputs, which stay free where None.

    Raises:
        UnavailableError: the package onnx is missing.
        CaptureError: the file is damaged, nothing here can run it, or it has a fixed batch.
    """
    try:
        import onnx
    except ImportError:
        remedy = "pip install 'cross-backend[onnxruntime]'"
        raise UnavailableError(f"reading {path.name} needs the package onnx", remedy) from None
    try:
        open_regular(path).close()
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        _check_holds_all(model)
    except ArtifactError:
        raise
    except Exception as error:
        raise CaptureError(f"{path} is damaged or not an ONNX model ({one_line(error)}).") from error
    inputs = _inputs(model)
    one_row = random_inputs(inputs)
    free = [bool(spec.shape) and not isinstance(spec.shape[0], int) for spec in inputs]
    if batch is None or (batch == 1 and not any(free)):
        onnx.save(model, copy)
        return _known(model, one_row, _truth(model, one_row, path))
    if not any(free):
        extents = " and ".join(dict.fromkeys(str(spec.shape[0]) if spec.shape else "no extent" for spec in inputs))
        raise CaptureError(
            f"{path.name} has a fixed batch of {extents}; export it with a free batch dimension: "
            f"cross-backend export MODEL --onnx {path.name}."
        )
    check_memory(path.name, batch, [x for x, is_free in zip(one_row, free, strict=True) if is_free])
    rows = [numpy_rows(x, batch) if is_free else x for x, is_free in zip(one_row, free, strict=True)]
    alone = {
        row: _truth(model, [x[row : row + 1] if f else x for x, f in zip(rows, free, strict=True)], path)
        for row in sorted({0, batch - 1})
    }
    _fix_batch(model, batch, path)
    onnx.save(model, copy)
    whole = alone[0] if batch == 1 else replace(alone[0], **_all_rows(model, rows, alone[0]))
    for row, truth in alone.items():
        if batch > 1 and truth.doubt is None:
            check_row(path.name, batch, row, whole.outputs, truth.outputs)
    return _known(model, rows, whole)


def _known(model: Any, given: Sequence[Any], truth: Truth) -> OnnxFile:
    """Return a checked model with its sample and probes."""
    import numpy as np

    inputs, outputs = _inputs(model), tuple(_spec(value) for value in model.graph.output)
    graph, run = OnnxGraph(model), _runner(model, truth)
    names = [spec.name for spec in inputs]
    sample = _sample(model, given, truth)
    kept: list[Any] = []
    dropped: dict[str, str] = {}
    if truth.doubt is None:
        free = [[axis for axis, n in enumerate(spec.shape) if not isinstance(n, int)] for spec in inputs]
        runtime, work = runtime_of(model), work_of(model)
        kept, dropped = onnx_probes(
            graph, names, free, given, sample["expected"], run, lambda x: runtime(_feed(model, x)), work
        )
    sample["fixed"] = [np.array(graph.fixed(names, [spec.name for spec in outputs]))]
    sample |= further_groups(PROBE, kept)
    return OnnxFile(inputs, outputs, sample, truth.reference, run, [one.name for one in kept], dropped)


def _truth(model: Any, inputs: Sequence[Any], path: Path) -> Truth:
    return find_truth(model, _feed(model, inputs), path.name)


def _feed(model: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    return {spec.name: tensor for spec, tensor in zip(_inputs(model), inputs, strict=True)}


def _all_rows(model: Any, rows: Sequence[Any], first: Truth) -> dict[str, Any]:
    """Return outputs of all rows and who computes them: the runtime, where it works, as it is fast."""
    feed = _feed(model, rows)
    run = runtime_of(model)
    try:
        return {"outputs": run(feed), "run": run}
    except Exception:
        return {"outputs": first.run(feed), "run": first.run}


def _sample(model: Any, inputs: Sequence[Any], truth: Truth) -> dict[str, Any]:
    """Return the sample's groups."""
    import numpy as np

    again = []
    with contextlib.suppress(Exception):  # which shows the rounding: another order of sums
        again = [[np.asarray(y) for y in runtime_of(model)(_feed(model, inputs))]]
    expected = [np.asarray(y) for y in truth.outputs]
    groups = make_sample(inputs, expected, _runner(model, truth), [] if truth.doubt else again, count_terms(model))
    if truth.doubt is not None:
        groups["doubt"] = [np.frombuffer(truth.doubt.encode(), np.uint8)]
    return groups


def _runner(model: Any, truth: Truth) -> Callable[[Sequence[Any]], list[Any]]:
    import numpy as np

    def run(arrays: Sequence[Any]) -> list[Any]:
        with failing_as(CaptureError, "the model fails"):
            return [np.asarray(y) for y in truth.run(_feed(model, arrays))]

    return run


def _check_holds_all(message: Any) -> None:
    """Refuse tensors that still lie in other files; those that ``onnx.load`` read in lay in the model's folder.

    Raises:
        ValueError: there is one.
    """
    for field, value in message.ListFields():
        if field.name == "data_location" and value == message.EXTERNAL:
            raise ValueError(f"the tensor {message.name!r} lies in another file")
        if field.message_type is not None:
            for one in [value] if hasattr(value, "ListFields") else value:
                _check_holds_all(one)


def _inputs(model: Any) -> tuple[TensorSpec, ...]:
    return tuple(map(_spec, _given(model)))


def _given(model: Any) -> list[Any]:
    """Return the inputs that a caller passes; older files list their weights among them."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _spec(value: Any) -> TensorSpec:
    import onnx

    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or tensor.elem_type in {
        onnx.TensorProto.UNDEFINED,
        onnx.TensorProto.STRING,
    }:
        raise CaptureError(f"{value.name!r} is no tensor of numbers; only such are taken and given.")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    dims = enumerate(tensor.shape.dim)
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"dim{i}" for i, dim in dims)
    return TensorSpec(value.name, dtype, shape)


def _fix_batch(model: Any, batch: int, path: Path) -> None:
    """Fix the free leading dimensions of the inputs to an extent, wherever else their names stand as well."""
    import onnx

    inputs = _given(model)
    leading = [dims[0] for dims in (value.type.tensor_type.shape.dim for value in inputs) if len(dims)]
    free = [dim for dim in leading if not dim.HasField("dim_value")]
    names = {dim.dim_param for dim in free} - {""}
    for dim in free:
        dim.dim_value = batch
    for value in (*inputs, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in names:
                dim.dim_value = batch
    del model.graph.value_info[:]  # what was inferred for the free extents; every runtime infers it again
    with failing_as(CaptureError, f"{path.name} cannot be run in batches of {batch}"):
        onnx.checker.check_model(model, full_check=True)


def count_terms(model: Any) -> int:
    """Return the terms of all sums of products along a model, by the weights' shapes; see ``sample.rounding_of``."""
    terms = 1
    weights = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    for node in model.graph.node:
        dims = next((weights[name] for name in node.input if len(weights.get(name, ())) > 1), None)
        if dims is not None and node.op_type in {"Conv", "Gemm", "MatMul"}:
            terms += math.prod(dims[1:]) if node.op_type == "Conv" else max(dims[-2:])
    return terms
