"""Lower: one captured program to one target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cross_backend.api.arguments import chosen_target, described
from cross_backend.api.models import file_stem, stored
from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.errors import UsageError
from cross_backend.exporting.export import ExportSettings, deliver
from cross_backend.lowering.lower import Lower, check_lowers
from cross_backend.lowering.lower import lower as lower_captured
from cross_backend.program.captured import Captured, OnnxProgram, Program
from cross_backend.registry import Resolved, resolve
from cross_backend.worker.process import Worker


def lower(program: Program, target: str, *, name: str = "model", output_dir: Path | str | None = None) -> Artifact:
    """Lower a captured program to a target.

    Runs in this process, or under the interpreter of the backend's toolchain.

    Example:
        >>> artifact = xb.lower(program, "torch", name="net")
        >>> artifact.workload
        'net'

    Args:
        program: what ``xb.capture`` returned, or an ``OnnxProgram``.
        target: ``xnnpack``, ``openvino?precision=bf16``, …
        name: stem of the files.
        output_dir: folder for payload, manifest and sample; the cache only where None.

    Raises:
        UsageError: an unknown target.
        UnavailableError: the backend cannot lower on this machine; the text has the remedy.
        UnsupportedError: the backend can never take this program.
        LowerError: it failed, or nothing of the program is inside.
    """
    cache, stem, resolved = Cache(), file_stem(name), resolve(chosen_target("target", target))
    if not isinstance(program, OnnxProgram) and not hasattr(program, "graph_signature"):
        raise UsageError(f"program: what xb.capture returns or an OnnxProgram is expected, not {described(program)}.")
    captured = stored(program, stem, cache)
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
