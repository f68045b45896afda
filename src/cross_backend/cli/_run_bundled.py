"""Run a bundled program: verified on its own test cases, and timed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.errors import ArtifactError

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.cli._run_steps import Work
    from cross_backend.records import Result


def is_bundled(path: Path) -> bool:
    """Whether a file is a bundled program, by its ending or by how it begins."""
    from cross_backend.bench.foreign import bundled_format, bundled_formats

    if not path.is_file():
        return False
    return path.suffix in {kind.suffix for kind in bundled_formats()} or bundled_format(path) is not None


def run_bundled(work: Work) -> int:
    """Take the program out of its bundle, verify every test case, time it, print.

    Raises:
        ArtifactError: no bundled program, damaged, or not the one that its manifest describes.
        UnavailableError: its delegate cannot run here.
        RunError: it fails, or returns wrong outputs.
    """
    from cross_backend.cli._run_steps import finish

    bundled = _find(work.args.artifact)
    described = _described(bundled)
    with tempfile.TemporaryDirectory() as folder:
        artifact, cases = _unbundle(bundled, described, Path(folder), work)
        result = _measure(work, artifact, cases)
        if described is None:  # how it was lowered, and what is inside its delegates, is not known
            result = replace(result, placement=None, export_s=None)
        error = finish(work, artifact, result, cases=len(cases))
    if error is not None:
        raise error
    return 0


def _find(path: Path) -> Path:
    """Return the bundled program: the file itself, or the one beside a payload or its manifest."""
    from cross_backend.bench.foreign import bundled_format, bundled_formats

    if not path.exists():
        raise ArtifactError(f"{path} does not exist.")
    if bundled_format(path) is not None:
        return path
    beside = ""
    for kind, payload_suffix in bundled_formats().items():
        if path.suffix in {payload_suffix, ".json"}:
            sibling = path.with_suffix(kind.suffix)
            if sibling.is_file():
                return sibling
            beside = f", and there is no {sibling.name} beside it"
    raise ArtifactError(
        f"{path} is not a bundled program{beside}; write one with 'cross-backend export MODEL --bundled'."
    )


def _described(bundled: Path) -> Artifact | None:
    """Return the artifact whose manifest, beside the file, names it; None for a file made by others.

    Raises:
        ArtifactError: the manifest is damaged, or describes other bytes.
    """
    from cross_backend.artifact import Artifact, digest_path
    from cross_backend.loading.found import is_other_json

    manifest = bundled.with_suffix(".json")
    if not manifest.is_file() or is_other_json(manifest):
        return None
    artifact = Artifact.read(manifest)
    if artifact.bundled != bundled.name:
        return None
    if digest_path(bundled) != artifact.bundled_sha256:
        raise ArtifactError(
            f"{bundled} is not the bundled program that {artifact.manifest_path.name} describes: it was changed, "
            "truncated or swapped. Export it again."
        )
    return artifact


def _unbundle(bundled: Path, described: Artifact | None, folder: Path, work: Work) -> tuple[Artifact, Sequence[Path]]:
    """Write the program as an artifact, and a tensor file per test case; in a worker: nobody vouches for it."""
    from cross_backend.artifact import Artifact
    from cross_backend.bench.foreign import Unbundle
    from cross_backend.worker.process import Worker

    with Worker(work.cache.log("run")) as worker:
        manifest, cases = worker.ask(Unbundle(bundled, folder), work.settings.timeout_s)
    artifact = Artifact.read(manifest)
    if described is not None:
        artifact = replace(
            artifact,
            target=described.target,
            workload=described.workload,
            inputs=described.inputs,
            outputs=described.outputs,
            placement=described.placement,
            export_s=described.export_s,
        )
        artifact.write_manifest()
    return artifact, cases


def _measure(work: Work, artifact: Artifact, cases: Sequence[Path]) -> Result:
    """Verify every test case; time the first."""
    from cross_backend.cli._run_steps import run_once
    from cross_backend.comparison.benches import open_bench
    from cross_backend.comparison.panel import measure_alone
    from cross_backend.loading.load import resolve_artifact
    from cross_backend.records import Outcome
    from cross_backend.verify.compare import precision_of

    settings, output = work.settings, work.args.output
    resolved = work.site.check_runs(resolve_artifact(artifact))
    with ExitStack() as stack:
        bench, opened = open_bench(artifact.payload_path, artifact.target, settings, work.cache, stack, work.site)
        verified, index = [], 0
        for index in [*range(1, len(cases)), 0]:
            bench.bind(cases[index])
            verified.append(bench.verify(precision_of(resolved.options)).comparison)
            if not verified[-1].verdict:
                break
        result = measure_alone(bench, artifact, resolved, settings, opened, work.cache)
        if result.outcome is not Outcome.OK:
            return replace(result, reason=f"test case {index}: {result.reason}")
        if output is not None:
            run_once(bench, output)
    return replace(result, comparison=max(verified, key=lambda comparison: comparison.max_rel))
