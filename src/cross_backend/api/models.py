"""Models: what a caller may name or hold becomes a source that a worker builds, or a captured program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cross_backend.api.arguments import checked, described, named, path_of
from cross_backend.cache import Cache
from cross_backend.errors import UsageError
from cross_backend.program.capture import TRACING, capture
from cross_backend.program.captured import Captured, OnnxProgram, Program
from cross_backend.program.captures import KIND
from cross_backend.program.writing import write_capture, write_program
from cross_backend.study import fields
from cross_backend.trust import keep
from cross_backend.workloads import Source, Workload, find_workload

if TYPE_CHECKING:
    import torch

Model: TypeAlias = "Program | torch.nn.Module | Workload | str | PathLike[str]"
"""A captured program, a module with its inputs, a workload, or what the command line takes."""
_FITS = (
    "a model's name, a file, a torch.nn.Module with its inputs, a captured program, an OnnxProgram or a Workload "
    "is expected"
)


def stored(program: Program | Workload, name: str, cache: Cache) -> Captured:
    """Store a program that the caller holds in the cache, under its own digest."""
    with TRACING, cache.scratch() as folder:
        if isinstance(program, Workload):
            captured = write_capture(replace(program, name=name), folder)
        elif isinstance(program, OnnxProgram):
            captured = write_capture(Workload(name, program.path), folder)
        else:
            captured = write_program(program, name, folder)
        held = Captured.read(cache.publish(folder, KIND, captured.cache_key))
        return replace(held, workload=name)


def subject(
    model: Model,
    inputs: Any,
    cache: Cache,
    *,
    name: str | None = None,
    trust: bool = False,
    weights: str | PathLike[str] | None = None,
    batch: int | None = None,
    calibration: str | PathLike[str] | None = None,
    task: str | None = None,
) -> Source | Captured:
    """Return what is exported.

    Args:
        model: as :data:`Model` says.
        inputs: example inputs of a module; paths of the user's own inputs for what is named.
        cache: where a program that the caller holds is stored.
        name: of a model that has none; ``model`` where None.
        trust: open a ``.pt2`` file although it holds code.
        weights: of a named model, as the command line takes it.
        batch: likewise.
        calibration: likewise.
        task: likewise.

    Raises:
        UsageError: one does not fit.
        CaptureError: a module cannot be captured.
    """
    of_names = {"weights": weights, "batch": batch, "calibration": calibration, "task": task}
    if isinstance(model, str | PathLike):
        if name is not None:
            raise UsageError(f"name: {name!r} came, but {str(model)!r} has a name. Leave it out.")
        return _found(str(model), inputs, cache, trust=trust, **of_names)
    kind = _kind(model)
    for key, value in of_names.items():
        if value is not None:
            raise UsageError(f"{key}: goes with a model's name or file, not with {kind}. Leave it out.")
    if isinstance(model, Workload):
        _no_inputs(inputs, kind)
        return stored(model, model.name if name is None else file_stem(name), cache)
    program: Any = model
    if kind == "a module":
        with TRACING:
            program = capture(program, _tensors(inputs, type(model).__name__))
    else:
        _no_inputs(inputs, kind)
    return stored(program, "model" if name is None else file_stem(name), cache)


def file_stem(name: Any) -> str:
    """Check a name that becomes the stem of files.

    Raises:
        UsageError: it is no plain file name.
    """
    if not isinstance(name, str) or name in {"", ".", ".."} or any(c in name for c in "/\\\0:"):
        raise UsageError(f"{described(name)} is not a plain file name; name is the stem of the files.")
    return name


def _kind(model: Any) -> str:
    """Return what a message calls a model that the caller holds.

    Raises:
        UsageError: it is none.
    """
    if isinstance(model, OnnxProgram | Workload):
        return f"an {type(model).__name__}" if isinstance(model, OnnxProgram) else "a Workload"
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return "a captured program"
    if isinstance(model, torch.nn.Module):
        return "a module"
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        raise UsageError(f"model: an instance is expected, such as {model.__name__}(), not {described(model)}.")
    raise UsageError(f"model: {_FITS}, not {described(model)}.")


def _found(text: str, inputs: Any, cache: Cache, *, trust: bool, **given: Any) -> Source:
    own = [_existing("inputs", one) for one in _listed(inputs)]
    weights, batch, task = given["weights"], checked("batch", given["batch"]), given["task"]
    weights = None if weights is None else str(path_of("weights", weights))
    task = None if task is None else named("task", fields.text, task)
    calibration = None if given["calibration"] is None else _existing("calibration", given["calibration"])
    path = Path(text)
    if trust and path.suffix == ".pt2" and path.is_file():
        keep(cache, path)
    return find_workload(text, weights, batch, own, calibration, task)


def _existing(name: str, given: Any) -> Path:
    path = path_of(name, given)
    if path is None or not path.exists():
        raise UsageError(f"{name}: {path} does not exist.")
    return path


def _listed(inputs: Any) -> Sequence[Any]:
    if inputs is None:
        return ()
    if isinstance(inputs, str | PathLike):
        return [inputs]
    if hasattr(inputs, "dtype") or not isinstance(inputs, list | tuple) or any(hasattr(one, "dtype") for one in inputs):
        raise UsageError("inputs: a named model or a file has example inputs. Paths of your own are expected here.")
    return inputs


def _no_inputs(inputs: Any, kind: str) -> None:
    if inputs is not None:
        raise UsageError(f"inputs: go with a torch.nn.Module; {kind} holds its own. Leave them out.")


def _tensors(inputs: Any, kind: str) -> tuple[Any, ...]:
    """Return the example inputs of a module; a bare tensor is one input."""
    import torch
    from torch.utils import _pytree

    if inputs is None:
        raise UsageError(f"inputs: a torch module needs its example inputs, and {kind} came without: inputs=(x,).")
    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    if not isinstance(inputs, list | tuple):
        raise UsageError(f"inputs: a tuple of torch tensors is expected, such as (x,), not {described(inputs)}.")
    if any(hasattr(leaf, "__array_interface__") for leaf in _pytree.tree_leaves(list(inputs))):
        raise UsageError("inputs: torch tensors are expected, not a NumPy array. Convert it: torch.from_numpy(x).")
    return tuple(inputs)
