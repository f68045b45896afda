"""Workloads: how a model's name on the command line becomes one; ``table`` has the built-in ones."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import (
    CaptureError,
    CrossBackendError,
    UnavailableError,
    UsageError,
    failing_as,
    one_line,
    unknown_name,
)
from cross_backend.foreign_files import open_regular
from cross_backend.machine import Machine, version_of
from cross_backend.workloads.checkpoint import load_checkpoint
from cross_backend.workloads.own_inputs import digest_of
from cross_backend.workloads.table import WORKLOADS, BuiltIn
from cross_backend.workloads.user_code import with_place

__all__ = ["WORKLOADS", "BuiltIn", "Source", "Task", "Workload", "file_of", "find_workload", "load_checkpoint"]

if TYPE_CHECKING:
    import numpy as np
    import torch

    from cross_backend.workloads.media import Media

_TORCH = (("torch", "torch"),)


@dataclass(frozen=True)
class Task:
    """What a trained model is for, with held-out data to score it on."""

    metric: str
    """``top-1 accuracy``: the share of samples whose largest output is at the label's index, ``top-5 accuracy``: among
    the five largest; or the name of :attr:`measure`."""
    inputs: Any
    """Samples along the first axis; each is given to the model as a batch of one. A tuple of several such arrays where
    the model takes several inputs."""
    labels: np.ndarray[Any, Any]
    """One class index a sample, or what the metric compares the outputs with."""
    measure: Callable[[Any, Any], float] | None = None
    """The user's own metric: of the outputs, all samples along the first axis (a list where there are several), and the
    labels; larger is better."""
    origin: str = ""
    """Digest of the file that the metric is from."""


@dataclass(frozen=True)
class Workload:
    """A model that was built: something to capture, and inputs to capture it with."""

    name: str
    """Stem of its files."""
    model: torch.nn.Module | Path
    """A module in evaluation mode, or the path of a ``.pt2`` or ``.onnx`` file."""
    inputs: tuple[Any, ...] = ()
    """Positional example inputs, torch tensors in any structure; empty for files, which bring their own
    specification."""
    calibration: tuple[tuple[Any, ...], ...] = ()
    """Inputs for quantisers to observe; the example inputs serve where there are none."""
    task: Task | None = None
    """Task metric, where the model was trained for one."""
    labels: tuple[str, ...] = ()
    """Names of the classes, by index of the output; empty where there are none."""
    batch: int | None = None
    """Extent of the batch dimension that was asked for; as it came where None."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Example inputs by name."""
    media: Media | None = None
    """What its inputs are made of, a picture, say, and what its outputs mean; None where that are tensors."""
    own: tuple[Path, ...] = ()
    """Files and folders with inputs of the user's own, which are verified beside the example inputs."""
    calibration_from: Path | None = None
    """File or folder with calibration inputs of the user's own, which stand for :attr:`calibration`."""
    was_training: bool = False
    """Whether the module was in training mode when it was built; it is captured in evaluation mode."""


@dataclass(frozen=True)
class Source:
    """A workload that was named and not yet built."""

    text: str
    """What the user wrote."""
    name: str
    """Stem of its files."""
    weights: str | None
    """Checkpoint file or published weights name."""
    identity: str | None
    """What the built model depends on, without building it; None where only running the code tells."""
    build: Callable[[], Workload]
    """Build it; imports torch."""
    batch: int | None = None
    """Extent of the batch dimension that was asked for; as it comes where None."""
    own: tuple[Path, ...] = ()
    """See :attr:`Workload.own`."""
    calibration: Path | None = None
    """See :attr:`Workload.calibration_from`."""
    task: str | None = None
    """``FILE.py:function`` that returns the task; None for the workload's own."""


def _calibrated(source: Source, path: Path | None) -> Source:
    if path is None:
        return source
    if not path.exists():
        raise UsageError(f"{path} does not exist; --calibration takes an .npz file, or a folder of inputs.")
    identity = None if source.identity is None else f"{source.identity}\ncalibration={digest_of(path)}"
    return replace(
        source,
        identity=identity,
        build=lambda: replace(source.build(), calibration_from=path),
        calibration=path,
    )


def _with_task(source: Source, text: str | None) -> Source:
    if text is None:
        return source
    from cross_backend.workloads.task import file_of_task, read_task

    file_of_task(text)  # a wrong name is told before anything is done
    build = source.build
    # What the function reads is only known by running it.
    return replace(source, identity=None, build=lambda: replace(build(), task=read_task(text)), task=text)


def _with_own(source: Source, own: tuple[Path, ...]) -> Source:
    if not own:
        return source
    digests = "\n".join(digest_of(path) for path in own)
    identity = None if source.identity is None else f"{source.identity}\ninputs={digests}"
    return replace(source, identity=identity, build=lambda: replace(source.build(), own=own), own=own)


def find_workload(
    text: str,
    weights: str | None = None,
    batch: int | None = None,
    own: Sequence[Path] = (),
    calibration: Path | None = None,
    task: str | None = None,
) -> Source:
    """Find what a name means: a built-in workload, ``file.pt2``, ``file.onnx`` or ``file.py:function``.

    Args:
        text: the name.
        weights: a checkpoint file, or a published name as the workload's library takes it.
        batch: extent of the batch dimension. With None a file keeps a free one; otherwise it is fixed.
        own: see :attr:`Workload.own`.
        calibration: see :attr:`Workload.calibration_from`.
        task: see :attr:`Source.task`.

    Raises:
        UsageError: no such workload, file or ending.
    """
    source = _with_own(_find(text, weights), tuple(path.resolve() for path in own))
    source = _with_task(_calibrated(source, None if calibration is None else calibration.resolve()), task)
    if batch is None:
        return source
    from cross_backend.workloads.batching import batched, batched_name

    if batch > Machine.here().memory_bytes:
        raise UsageError(f"--batch {batch}: one byte a row would be more than the memory of this machine.")
    identity = source.identity
    if identity is not None and (batch != 1 or text not in WORKLOADS):  # the built-in ones have one row as they are
        identity = f"{identity}\nbatch={batch}"
    name = batched_name(source.name, batch)
    return replace(source, name=name, identity=identity, build=lambda: batched(source.build(), batch), batch=batch)


def _find(text: str, weights: str | None) -> Source:
    path, mark, function = text.rpartition(":")
    if mark and path.endswith(".py"):
        return _python_source(text, Path(path), function, weights)
    if Path(text).suffix in {".pt2", ".onnx"}:
        return _file_source(text, Path(text), weights)
    if text.endswith(".py"):
        raise _no_function(Path(text))
    if text not in WORKLOADS:
        error = unknown_name("model", text, WORKLOADS)
        raise UsageError(f"{error} Your own model: path/to/file.py:function, file.pt2 or file.onnx.")
    row = WORKLOADS[text]
    versions = [f"{name}={version_of(name)}" for name, _ in row.requires]
    identity = "\n".join([text, _digest_weights(weights), _digest_builders(), *versions])
    return Source(text, text, weights, identity, lambda: _build_row(text, row, weights))


def _no_function(path: Path) -> UsageError:
    """Return an error that names the functions of a file that can be called; the file is not run."""
    import ast

    if not path.is_file():
        return UsageError(f"{path} does not exist.")
    try:
        with open_regular(path) as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError) as error:
        return UsageError(f"{path} is not a Python file: {one_line(error)}.")
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    callable_ones = [f"{path}:{node.name}" for node in functions if len(node.args.args) == len(node.args.defaults)]
    if not callable_ones:
        return UsageError(f"{path} has no function that takes nothing and returns (module, inputs). Write one.")
    return UsageError(f"{path} is a file: name one of its functions: {', '.join(callable_ones)}.")


def file_of(text: str) -> Path | None:
    """Return the file that a model's name stands for, or None for a built-in workload; it need not exist."""
    path, mark, _ = text.rpartition(":")
    if mark and path.endswith(".py"):
        return Path(path)
    return Path(text) if Path(text).suffix in {".pt2", ".onnx"} else None


def _build_row(name: str, row: BuiltIn, weights: str | None) -> Workload:
    _require(name, row.requires)
    module, _, function = row.build.partition(":")
    with failing_as(CaptureError, f"{name} cannot be built"):
        built: Workload = getattr(importlib.import_module(module), function)(name, weights)
    return built


def _require(name: str, packages: Sequence[tuple[str, str]]) -> None:
    for distribution, extra in packages:
        if version_of(distribution) is None:
            raise UnavailableError(f"{name} needs the package {distribution}", f"pip install 'cross-backend[{extra}]'")


def _file_source(text: str, path: Path, weights: str | None) -> Source:
    if not path.is_file():
        raise UsageError(f"{path} does not exist.")
    if weights is not None:
        raise UsageError(f"--weights does not go with {path.name}: the file holds its weights.")
    name = _stem(path.stem)
    # External ONNX data may lie in further files; building reads them, so only .pt2 is known by its own bytes.
    identity = _digest_file(path) + f"\ntorch={version_of('torch')}" if path.suffix == ".pt2" else None
    return Source(text, name, None, identity, lambda: _build_file(path, name))


def _build_file(path: Path, name: str) -> Workload:
    if path.suffix == ".pt2":
        _require(path.name, _TORCH)
    return Workload(name, path)


def _python_source(text: str, path: Path, function: str, weights: str | None) -> Source:
    if not path.is_file():
        raise UsageError(f"{path} does not exist.")
    name = _stem(f"{path.stem}_{function}")
    return Source(text, name, weights, None, lambda: _build_python(path, function, name, weights))


def _build_python(path: Path, function: str, name: str, weights: str | None) -> Workload:
    """Run the user's function: it returns ``(module, inputs)``, ``(module, inputs, kwargs)`` or a Workload."""
    from cross_backend.workloads._torchvision import mend_imports

    _require(f"{path.name}:{function}", _TORCH)
    mend_imports()
    built = call_function(path, function)
    if isinstance(built, Workload):
        if weights is not None:
            if isinstance(built.model, Path):
                raise UsageError("--weights does not go with a file.")
            load_checkpoint(built.model, weights)
        return replace(built, was_training=getattr(built.model, "training", False))
    try:
        model, inputs, *more = built
        kwargs = dict(*more)
        inputs = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
        was_training = bool(model.training)
        model.eval()
    except (TypeError, ValueError, AttributeError) as error:
        raise CaptureError(
            f"{path}:{function} must return (module, inputs) or (module, inputs, kwargs), not {_made(built)}."
        ) from error
    if weights is not None:
        load_checkpoint(model, weights)
    return Workload(name, model, inputs, kwargs=kwargs, was_training=was_training)


def call_function(path: Path, function: str) -> Any:
    """Run a file of the user's, and return what one of its functions returns.

    Raises:
        UsageError: it has no such function.
        CaptureError: it failed.
    """
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"{path} is not a Python file.")
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        if not hasattr(module, function):
            functions = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise unknown_name(f"function in {path}:", function, functions)
        return getattr(module, function)()
    except CrossBackendError:
        raise
    except (Exception, SystemExit) as error:
        raise CaptureError(f"{path}:{function} failed: {with_place(error)}") from error


def _made(built: Any) -> str:
    if isinstance(built, tuple | list):
        return f"({', '.join(type(one).__name__ for one in built)})"
    return type(built).__name__


def _stem(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in text)


def _digest_weights(weights: str | None) -> str:
    if weights is None:
        return "seeded"
    path = Path(weights)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        return "\n".join(f"{file.name} {_digest_file(file)}" for file in files)
    return _digest_file(path) if path.is_file() else f"named {weights}"


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_builders() -> str:
    """Digest the source of all builders, so that a change to one is never served from the cache."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
