"""Batching: a workload of batch 1 becomes one of batch n, and its outputs prove that the batch axis is one.

Row i of an input is the example rolled by i along its last axis: rows differ, and values stay in their range. Numbers
that are the same all along that axis are made smaller from row to row instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError
from cross_backend.tensors import kind_of
from cross_backend.workloads import Workload

if TYPE_CHECKING:
    import numpy as np
    from torch.export import ExportedProgram

ROW_TOLERANCE = 1e-3
"""Largest difference of a row from the same row alone, as a share of the largest magnitude: kernels for several rows
add up in another order."""
_ROUNDINGS = 8
"""The same in units of the element type's resolution, for coarse types."""


def batched_name(name: str, batch: int | None) -> str:
    """Return the stem of a workload's files at a batch size: ``resnet50``, ``resnet50_batch8``."""
    return name if batch in {None, 1} else f"{name}_batch{batch}"


def unbatched_name(name: str, batch: int) -> str:
    """Return the workload's own name from :func:`batched_name`'s."""
    return name if batch == 1 else name.removesuffix(f"_batch{batch}")


def batched(workload: Workload, batch: int | None) -> Workload:
    """Return a workload another batch size; files are left to the capture, which reads them.

    Args:
        workload: its inputs have a leading extent of 1, unless it is a file.
        batch: None to leave everything as it is.

    Raises:
        CaptureError: an input has another leading extent, or none.
    """
    if batch is None:
        return workload
    name = batched_name(workload.name, batch)
    if isinstance(workload.model, Path) or batch == 1:
        return replace(workload, name=name, batch=batch)
    inputs, kwargs = _repeated((workload.inputs, workload.kwargs), batch, workload.name)
    return replace(
        workload,
        name=name,
        batch=batch,
        inputs=inputs,
        kwargs=kwargs,
        calibration=tuple(_repeated(inputs, batch, workload.name) for inputs in workload.calibration),
    )


def _repeated(inputs: Sequence[Any], batch: int, name: str) -> tuple[Any, ...]:
    from torch.utils import _pytree

    leaves = [leaf for leaf in _pytree.tree_leaves(tuple(inputs)) if hasattr(leaf, "shape")]
    for index, leaf in enumerate(leaves):
        shape = tuple(leaf.shape)
        if not shape or shape[0] != 1:
            raise CaptureError(
                f"{name} cannot be run in batches of {batch}: its example input {index} has the shape {list(shape)}; "
                "give an example of one sample, with a leading extent of 1."
            )
    check_memory(name, batch, leaves)
    repeated: tuple[Any, ...] = _pytree.tree_map(
        lambda leaf: torch_rows(leaf, batch) if hasattr(leaf, "shape") else leaf, tuple(inputs)
    )
    return repeated


def check_memory(name: str, batch: int, rows: Sequence[Any]) -> None:
    """Refuse a batch whose inputs, and the copy of them that a run is given, are more than the memory that is free.

    Args:
        name: of the workload, for the message.
        batch: number of rows.
        rows: tensors of one row each, torch or NumPy.

    Raises:
        CaptureError: as it says.
    """
    import psutil

    needed, free = batch * sum(int(row.nbytes) for row in rows), psutil.virtual_memory().available
    if 2 * needed > free:
        raise CaptureError(
            f"{name} cannot be run in batches of {batch}: its inputs would be {needed / 1e9:,.1f} GB, and twice that "
            f"while they are run; {free / 1e9:,.1f} GB of this machine's memory are free. Take a smaller batch."
        )


def torch_rows(tensor: Any, batch: int) -> Any:
    """Make ``batch`` rows of a torch tensor of one."""
    import torch

    if tensor.is_floating_point() and torch.equal(tensor.roll(1, -1), tensor):
        factors = 1 - torch.arange(batch, dtype=torch.float64) / (2 * batch)  # 1 for the first, above 1/2 for the last
        return tensor * factors.to(tensor.dtype).reshape(batch, *[1] * (tensor.dim() - 1))
    distinct = min(batch, max(1, tensor.shape[-1]))  # rolled all the way round, a row is the first again
    return torch.cat([tensor.roll(row, -1) for row in range(distinct)])[torch.arange(batch) % distinct]


def numpy_rows(array: np.ndarray[Any, Any], batch: int) -> np.ndarray[Any, Any]:
    """Make ``batch`` rows of a NumPy array of one."""
    import numpy as np

    if kind_of(array) == "f" and np.array_equal(np.roll(array, 1, axis=-1), array):
        factors = 1 - np.arange(batch) / (2 * batch)
        return np.asarray(array * factors.astype(array.dtype).reshape(batch, *[1] * (array.ndim - 1)))
    distinct = min(batch, max(1, array.shape[-1]))
    once = np.concatenate([np.roll(array, row, axis=-1) for row in range(distinct)])
    return np.asarray(np.take(once, np.arange(batch) % distinct, axis=0))


def row_of(inputs: Sequence[Any], row: int, has_rows: Sequence[bool] | None = None) -> tuple[Any, ...]:
    """Return one row of a batch of torch tensors.

    Args:
        inputs: of the whole batch.
        row: which one.
        has_rows: for each tensor, whether it has rows; those that have none stay. All have where None.
    """
    from torch.utils import _pytree

    leaves, structure = _pytree.tree_flatten(tuple(inputs))
    flags = has_rows if has_rows is not None else [True] * len(leaves)
    taken = [leaf[row : row + 1] if flag else leaf for leaf, flag in zip(leaves, flags, strict=True)]
    single: tuple[Any, ...] = _pytree.tree_unflatten(taken, structure)
    return single


def fix_batch(
    program: ExportedProgram, inputs: Sequence[Any], batch: int, name: str
) -> tuple[tuple[Any, ...], list[bool]]:
    """Return inputs with ``batch`` rows in a program's free leading dimensions; others stay.

    Args:
        program: as torch exported it.
        inputs: its example inputs; their first rows are used.
        batch: wanted extent.
        name: of the file, for the message.

    Returns:
        The inputs, and for each tensor whether its leading dimension was free: for none only where the batch is 1.

    Raises:
        CaptureError: no leading dimension is free, and more than one row is wanted.
    """
    from torch.utils import _pytree

    leaves, structure = _pytree.tree_flatten(tuple(inputs))
    free = _free_inputs(program)
    if not any(free):
        if batch == 1:
            return tuple(inputs), free
        shapes = [getattr(leaf, "shape", ()) for leaf in leaves]
        extents = " and ".join(dict.fromkeys(str(shape[0]) if shape else "no extent" for shape in shapes))
        raise CaptureError(
            f"{name} has a fixed batch of {extents}; export it with a free batch dimension "
            "(torch.export.export(…, dynamic_shapes=…))."
        )
    check_memory(name, batch, [leaf[:1] for leaf, is_free in zip(leaves, free, strict=True) if is_free])
    rows = [torch_rows(leaf[:1], batch) if is_free else leaf for leaf, is_free in zip(leaves, free, strict=True)]
    repeated: tuple[Any, ...] = _pytree.tree_unflatten(rows, structure)
    return repeated, free


def has_free_batch(program: ExportedProgram) -> bool:
    """Whether the leading dimension of every input is free."""
    return all(_free_inputs(program))


def _free_inputs(program: ExportedProgram) -> list[bool]:
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    shapes = [tuple(getattr(values[str(key)], "shape", ())) for key in program.graph_signature.user_inputs]
    return [bool(shape) and not isinstance(shape[0], int) for shape in shapes]


def check_row(
    name: str,
    batch: int,
    row: int,
    outputs: Sequence[Any],
    alone: Sequence[Any],
    again: Callable[[], Sequence[Any] | None] = lambda: None,
) -> None:
    """Check that a batch is one: a row's outputs among others are its outputs alone.

    Args:
        name: of the workload, for the message.
        batch: number of rows.
        row: which one.
        outputs: NumPy arrays of all rows; those with this leading extent are looked at.
        alone: the same outputs of the row alone.
        again: the row alone with other rounding errors; asked only where outputs differ.

    Raises:
        CaptureError: they differ, or no output has a row for each input row.
    """
    found = False
    rounded: Sequence[Any] | None = None
    for index, (whole, single) in enumerate(zip(outputs, alone, strict=True)):
        if whole.shape[:1] != (batch,) or whole.shape == single.shape:
            continue
        found = True
        got = whole[row : row + 1]
        is_same = got.shape == single.shape and _close(got, single)
        if not is_same and got.shape == single.shape:
            rounded = again() if rounded is None else rounded
            is_same = rounded is not None and _is_rounding(got, single, rounded[index])
        if not is_same:
            raise CaptureError(
                f"{name} cannot be run in batches of {batch}: row {row} of output {index} differs from that of its "
                "input alone. The leading axis is no batch axis."
            )
    if not found:
        shapes = ", ".join(str(list(array.shape)) for array in outputs)
        raise CaptureError(
            f"{name} cannot be run in batches of {batch}: no output has a leading extent of {batch} ({shapes})."
        )


def _is_rounding(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], rounded: np.ndarray[Any, Any]) -> bool:
    """Whether a row differs by what rounding does to it: cancellation, and whole numbers that are nearly a tie."""
    import numpy as np

    if rounded.shape != want.shape:
        return False
    if kind_of(want) not in "fc":
        return bool((got != want).sum() <= _ROUNDINGS * (rounded != want).sum())
    with np.errstate(invalid="ignore"):
        away, unavoidable = np.abs(got - want), np.abs(rounded - want)
    return bool(away.max(initial=0.0) <= _ROUNDINGS * unavoidable.max(initial=0.0))


def _close(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> bool:
    import numpy as np

    if kind_of(want) not in "fc":
        return bool(np.array_equal(got, want))
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return False
    tolerance = max(ROW_TOLERANCE, _ROUNDINGS * float(np.finfo(want.dtype).eps))
    with np.errstate(invalid="ignore"):
        away = np.nan_to_num(np.abs(got - want), nan=0.0)  # infinities that are equal, and what is no number in both
    scale = np.abs(want[np.isfinite(want)]).max(initial=0.0)
    return bool(away.max(initial=0.0) <= tolerance * scale)
