"""Models of the user's own: ``file.pt2``, ``file.onnx``, ``file.py:function``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cross_backend.errors import CaptureError, CrossBackendError, UsageError, one_line, unknown_name
from cross_backend.foreign_files import open_regular
from cross_backend.machine import version_of
from cross_backend.workloads.checkpoint import load_checkpoint
from cross_backend.workloads.naming import digest_file, require, stem_of
from cross_backend.workloads.user_code import with_place
from cross_backend.workloads.workload import Source, Workload

_TORCH = (("torch", "torch"),)


def file_of(text: str) -> Path | None:
    """Return the file that a model's name stands for, or None for a built-in workload; it need not exist."""
    path, mark, _ = text.rpartition(":")
    if mark and path.endswith(".py"):
        return Path(path)
    return Path(text) if Path(text).suffix in {".pt2", ".onnx"} else None


def file_source(text: str, path: Path, weights: str | None) -> Source:
    """Name a ``.pt2`` or ``.onnx`` file.

    Raises:
        UsageError: there is none, or weights were named beside it.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist.")
    if weights is not None:
        raise UsageError(f"--weights does not go with {path.name}: the file holds its weights.")
    name = stem_of(path.stem)
    # External ONNX data may lie in further files; building reads them, so only .pt2 is known by its own bytes.
    identity = digest_file(path) + f"\ntorch={version_of('torch')}" if path.suffix == ".pt2" else None
    return Source(text, name, None, identity, lambda: _build_file(path, name))


def _build_file(path: Path, name: str) -> Workload:
    if path.suffix == ".pt2":
        require(path.name, _TORCH)
    return Workload(name, path)


def python_source(text: str, path: Path, function: str, weights: str | None) -> Source:
    """Name a function of a Python file.

    Raises:
        UsageError: there is no such file.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist.")
    name = stem_of(f"{path.stem}_{function}")
    return Source(text, name, weights, None, lambda: _build_python(path, function, name, weights))


def _build_python(path: Path, function: str, name: str, weights: str | None) -> Workload:
    """Run the user's function: it returns ``(module, inputs)``, ``(module, inputs, kwargs)`` or a Workload."""
    from atalla.torchvision import mend_imports

    require(f"{path.name}:{function}", _TORCH)
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


def no_function(path: Path) -> UsageError:
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


def _made(built: Any) -> str:
    if isinstance(built, tuple | list):
        return f"({', '.join(type(one).__name__ for one in built)})"
    return type(built).__name__
