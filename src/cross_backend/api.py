"""The functions behind ``import cross_backend as xb`` that need more than one room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.comparison import panel
from cross_backend.comparison.settings import Settings
from cross_backend.errors import UsageError
from cross_backend.export.export import ExportSettings, deliver
from cross_backend.lowering.lower import Lower, check_lowers
from cross_backend.lowering.lower import lower as lower_captured
from cross_backend.program.capture import Captured, OnnxProgram, Program, capture, write_capture, write_program
from cross_backend.program.captures import KIND
from cross_backend.registry import Resolved, check_targets, resolve
from cross_backend.trust import keep
from cross_backend.worker.process import Worker
from cross_backend.workloads import Workload, find_workload

if TYPE_CHECKING:
    import torch

    from cross_backend.records import Panel


def _captured(program: Program, name: str, cache: Cache) -> Captured:
    """Store a program that the caller holds in the cache, under its own digest."""
    with cache.scratch() as folder:
        if isinstance(program, OnnxProgram):
            captured = write_capture(Workload(name, program.path), folder)
        else:
            captured = write_program(program, name, folder)
        stored = Captured.read(cache.publish(folder, KIND, captured.digest[:32]))
        return replace(stored, workload=name)


def lower(program: Program, target: str, *, name: str = "model", output_dir: Path | str | None = None) -> Artifact:
    """Lower a captured program to a target: in this process, or under the interpreter of its backend's toolchain.

    Args:
        program: what ``xb.capture`` gave, or an :class:`OnnxProgram`.
        target: ``xnnpack``, ``openvino?precision=bf16``, …
        name: stem of the files.
        output_dir: folder for payload, manifest and sample; the cache only where None.

    Raises:
        UsageError: an unknown target.
        UnavailableError: the backend cannot lower on this machine; the text has the remedy.
        UnsupportedError: the backend can never take this program.
        LowerError: it failed, or nothing of the program is inside.
    """
    if not name or name in {".", ".."} or any(c in name for c in "/\\\0:"):
        raise UsageError(f"{name!r} is not a plain file name; name is the stem of the files.")
    cache = Cache()
    resolved = resolve(target)
    captured = _captured(program, name, cache)
    if resolved.backend.toolchain is None:
        artifact = lower_captured(captured, resolved, cache).artifact
    else:
        artifact = _lower_in_toolchain(captured, resolved, cache)
    if output_dir is not None:
        return deliver(artifact, resolved, Path(output_dir))
    return replace(artifact, target=str(resolved.target))


def _lower_in_toolchain(captured: Captured, resolved: Resolved, cache: Cache) -> Artifact:
    check_lowers(captured, resolved)
    with Worker(cache.log("lower"), resolved.lowering_python) as worker:
        question = Lower(captured.folder, str(resolved.target), bundled=False, cache=cache.root)
        manifest, _ = worker.ask(question, ExportSettings(cache).timeout_s)
    return replace(Artifact.read(manifest), workload=captured.workload)


def compare(
    model: Program | torch.nn.Module | str,
    targets: Sequence[str],
    inputs: Sequence[Any] | None = None,
    *,
    trust: bool = False,
    **settings: Any,
) -> Panel:
    """Lower, verify, measure and rank.

    Args:
        model: a captured program, a module with its ``inputs``, or what the command line takes: a workload's name,
            ``file.py:function``, a file.
        targets: backend names with options.
        inputs: positional example inputs of a module.
        trust: open a ``.pt2`` file although it holds code and was not made on this machine; remembered by its digest.
        settings: of :class:`cross_backend.comparison.settings.Settings`: num_runs, seconds, threads, timeout_s, seed.

    Returns:
        A panel: one result a target, in their order; ``panel.ranked`` has the fastest first.

    Raises:
        UsageError: an unknown model or target.
        CaptureError: the model cannot be captured.
    """
    check_targets(targets)
    cache = Cache()
    if isinstance(model, str):
        if trust:
            keep(cache, Path(model))
        return panel.compare(find_workload(model), targets, Settings(**settings), ExportSettings(cache))
    program = model if inputs is None else capture(cast("torch.nn.Module", model), inputs)
    captured = _captured(cast("Program", program), "model", cache)
    return panel.compare(captured, targets, Settings(**settings), ExportSettings(cache))
