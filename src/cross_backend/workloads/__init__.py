"""Workloads: how a model's name on the command line becomes one; ``table`` has the built-in ones."""

from __future__ import annotations

import hashlib
import importlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cross_backend.errors import CaptureError, UsageError, failing_as, unknown_name
from cross_backend.machine import Machine, version_of
from cross_backend.names.target import Target
from cross_backend.workloads.checkpoint import load_checkpoint
from cross_backend.workloads.naming import digest_file, require, stem_of
from cross_backend.workloads.own_inputs import digest_of
from cross_backend.workloads.table import WORKLOADS, BuiltIn
from cross_backend.workloads.user_files import file_of, file_source, no_function, python_source
from cross_backend.workloads.workload import Source, Task, Workload

__all__ = [
    "WORKLOADS",
    "BuiltIn",
    "Source",
    "Task",
    "Workload",
    "decoder_of",
    "encoder_of",
    "file_of",
    "find_workload",
    "load_checkpoint",
]

MOST_DIGITS = 7
"""Of a size."""


def _calibrated(source: Source, path: Path | None) -> Source:
    if path is None:
        return source
    if not path.exists():
        raise UsageError(f"{path} does not exist; --calibration takes an .npz file, or a folder of inputs.")
    identity = None if source.identity is None else f"{source.identity}\ncalibration={digest_of(path)}"
    return replace(
        source, identity=identity, build=lambda: replace(source.build(), calibration_from=path), calibration=path
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
        batch: batch size. With None a file keeps a free one; otherwise it is fixed.
        own: see ``Workload.own``.
        calibration: see ``Workload.calibration_from``.
        task: see ``Source.task``.

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
        return python_source(text, Path(path), function, weights)
    if Path(text).suffix in {".pt2", ".onnx"}:
        return file_source(text, Path(text), weights)
    if text.endswith(".py"):
        raise no_function(Path(text))
    name, _, query = text.partition("?")
    if name not in WORKLOADS:
        error = unknown_name("model", name, WORKLOADS)
        raise UsageError(f"{error} Your own model: path/to/file.py:function, file.pt2 or file.onnx.")
    row = WORKLOADS[name]
    sizes = _sizes(name, row, text) if query else {}
    versions = [f"{name}={version_of(name)}" for name, _ in row.requires]
    if row.trained_on:
        versions.append(f"{row.trained_on} of Python {platform.python_version()}")
    identity = "\n".join([text, _digest_weights(weights), _digest_builders(), *versions])
    stem = stem_of(text)
    context = {**row.options, **sizes}.get("context")
    return Source(text, stem, weights, identity, lambda: _build_row(stem, row, weights, sizes), context=context)


def decoder_of(text: str) -> str:
    """Return the built-in decoder with a model's weights, or the name itself where there is none; ``t5`` names one."""
    name, mark, query = text.partition("?")
    row = WORKLOADS.get(name) or WORKLOADS.get(f"{name}_decoder")
    return f"{row.decoder}{mark}{query}" if row is not None and row.decoder else text


def encoder_of(text: str) -> str | None:
    """Return the built-in encoder whose outputs a decoder reads, of the same sizes; None where it reads none."""
    name, _, query = text.partition("?")
    row = WORKLOADS.get(name)
    if row is None or row.encoder is None:
        return None
    taken = WORKLOADS[row.encoder].options
    sizes = [size for size in query.split("&") if size.partition("=")[0] in taken]
    return f"{row.encoder}?{'&'.join(sizes)}" if sizes else row.encoder


def _sizes(name: str, row: BuiltIn, text: str) -> dict[str, int]:
    """Read the sizes after a model's name.

    Raises:
        UsageError: it takes no such size, or one is no whole number.
    """
    found: dict[str, int] = {}
    for key, value in Target.parse(text).options.items():
        if key not in row.options:
            raise unknown_name(f"size of {name}:", key, row.options)
        if not value.isdecimal() or len(value) > MOST_DIGITS:
            raise UsageError(f"{key}={value} of {name} is no whole number.")
        found[key] = int(value)
    return found


def _build_row(name: str, row: BuiltIn, weights: str | None, sizes: Mapping[str, int]) -> Workload:
    require(name, row.requires)
    module, _, function = row.build.partition(":")
    with failing_as(CaptureError, f"{name} cannot be built"):
        built: Workload = getattr(importlib.import_module(module), function)(name, weights, **sizes)
    return built


def _digest_weights(weights: str | None) -> str:
    if weights is None:
        return "seeded"
    path = Path(weights)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        return "\n".join(f"{file.name} {digest_file(file)}" for file in files)
    return digest_file(path) if path.is_file() else f"named {weights}"


def _digest_builders() -> str:
    """Digest the source of all builders, so that a change to one is never served from the cache."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
