"""Lowering one captured workload to one target: cached by content, and certified before it counts."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cross_backend import trust
from cross_backend._version import __version__
from cross_backend.artifact import Artifact, digest_path, size_of
from cross_backend.backend import Calibration
from cross_backend.cache import Cache, key_of
from cross_backend.errors import (
    ArtifactError,
    CrossBackendError,
    LowerError,
    UnavailableError,
    UnsupportedError,
    one_line,
)
from cross_backend.machine import Machine, version_of
from cross_backend.names.precisions import CALIBRATED
from cross_backend.placement import Placement
from cross_backend.program.captured import Captured, OnnxProgram, Program
from cross_backend.program.explicit import explicit
from cross_backend.program.ranges import NARROW, out_of_range
from cross_backend.program.state import state_of, value_of
from cross_backend.registry import Resolved, missing_here, resolve
from cross_backend.tensors import load_tensors, to_numpy
from cross_backend.toolchains import TOOLCHAINS
from cross_backend.worker.question import Answering, Question

KIND = "artifacts"
SAMPLE = "sample.npz"
ELSEWHERE = "Use a backend of another runtime: cross-backend backends"
"""What to do with a program of which no kernel of this runtime is known."""
REASONS = 3
"""Operators whose reasons are told where nothing is inside: the most expensive ones."""


@dataclass(frozen=True)
class LoweredTo:
    """An artifact in the cache."""

    artifact: Artifact
    cached: bool
    """Whether it was there before."""


@dataclass(frozen=True)
class Lower(Question[tuple[Path, bool]]):
    """Lower a captured workload into the cache."""

    folder: Path
    """Of the capture."""
    target: str
    bundled: bool
    cache: Path

    def answer(self, _process: Answering) -> tuple[Path, bool]:
        """Return the artifact's manifest, and whether it was there before."""
        done = lower(Captured.read(self.folder), resolve(self.target), Cache(self.cache), bundled=self.bundled)
        return done.artifact.manifest_path, done.cached


def lower(captured: Captured, resolved: Resolved, cache: Cache, *, bundled: bool = False) -> LoweredTo:
    """Lower, unless the cache holds the same program for the same target from the same versions.

    With ``bundled`` the artifact also holds the program with its sample inside, in its runtime's own format.

    Raises:
        UnavailableError: the backend cannot lower here.
        UnsupportedError: it can never take this program.
        LowerError: it failed, or the payload holds none of the backend's work.
    """
    found = find(captured, resolved, cache, bundled=bundled)
    if found is not None:
        return LoweredTo(found, cached=True)
    check_lowers(captured, resolved)
    if bundled:
        return _with_bundled(captured, resolved, cache)
    with cache.scratch() as folder:
        started = time.perf_counter()
        try:
            program, calibration = _as_taken(captured, resolved)
            with _root_logger_kept():
                lowered = resolved.backend.lower(program, resolved.options, folder / "artifact", calibration)
        except (CrossBackendError, OSError):
            raise
        except Exception as error:
            raise LowerError(f"{resolved.target.name} failed: {one_line(error)}") from error
        export_s = time.perf_counter() - started
        if lowered.placement.inside_count == 0:
            raise _nothing_inside(resolved, lowered.placement)
        shutil.copyfile(captured.sample_path, folder / SAMPLE)
        artifact = Artifact(
            folder=folder,
            name="artifact",
            target=str(resolved.lowering),
            workload=captured.workload,
            program=captured.digest,
            payload=lowered.payload.name,
            sha256=digest_path(lowered.payload),
            size_bytes=size_of(lowered.payload),
            inputs=captured.inputs,
            outputs=captured.outputs,
            state=captured.state,
            structure=captured.structure,
            media=captured.media,
            placement=lowered.placement.weighed(captured.flops),
            estimate=lowered.estimate,
            versions=versions(resolved),
            export_s=export_s,
            sample=SAMPLE,
            sample_sha256=digest_path(folder / SAMPLE),
            ranges=_ranges(captured, resolved),
            calibration=captured.calibrated_on() if resolved.options.get("precision") in CALIBRATED else None,
        )
        artifact.write_manifest()
        place = cache.publish(folder, KIND, artifact_key(captured, resolved))
    # Another process may have published first: what it wrote is what lies there.
    return LoweredTo(_own(Artifact.read(place / "artifact.json"), captured, resolved, cache), cached=False)


def _as_taken(captured: Captured, resolved: Resolved) -> tuple[Program, Calibration]:
    """Return the program as the backend takes its state, and inputs for quantisers to observe."""
    program, calibration = captured.program(), captured.calibration()
    if isinstance(program, OnnxProgram) or not captured.state or resolved.backend.takes_state == "program":
        return program, calibration
    initial = [to_numpy(value_of(program, name)) for name in state_of(program)]
    return explicit(program), [(*row, *initial) for row in calibration]


def _ranges(captured: Captured, resolved: Resolved) -> tuple[str, ...]:
    """Return what a narrow type cannot hold of a torch program, or why that is not known."""
    precision = str(resolved.options.get("precision", "fp32"))
    program = captured.program() if precision in NARROW else None
    if program is None or isinstance(program, OnnxProgram):
        return ()
    sample = load_tensors(captured.sample_path)["input"]
    try:
        return out_of_range(program, precision, captured.calibration(), sample)
    except Exception as error:  # the payload is good without
        return (f"ranges were not checked: {one_line(error)}",)


@contextlib.contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Keep the root logger's level: some compilers raise it for ever, and the caller's own warnings with it."""
    root = logging.getLogger()
    level = root.level
    try:
        yield
    finally:
        root.setLevel(level)


def _with_bundled(captured: Captured, resolved: Resolved, cache: Cache) -> LoweredTo:
    """Lower, and publish a copy that has the bundled program, too."""
    kind = resolved.backend.bundled
    if kind is None:
        raise UnsupportedError(f"{resolved.backend.name} has no bundled programs.")
    plain = lower(captured, resolved, cache).artifact
    with cache.scratch() as folder:
        artifact = plain.copy_to(folder, plain.name, plain.target, SAMPLE)
        path = folder / f"{artifact.name}{kind.suffix}"
        kind.write(artifact, path)
        replace(artifact, bundled=path.name, bundled_sha256=digest_path(path)).write_manifest()
        place = cache.publish(folder, KIND, artifact_key(captured, resolved, bundled=True))
    return LoweredTo(relabelled(Artifact.read(place / "artifact.json"), captured, resolved), cached=False)


def find(captured: Captured, resolved: Resolved, cache: Cache, *, bundled: bool = False) -> Artifact | None:
    """Return the cached artifact, if it is there and whole; a damaged one is dropped."""
    key = artifact_key(captured, resolved, bundled=bundled)
    folder = cache.find(KIND, key)
    if folder is None:
        return None
    try:
        artifact = Artifact.read(folder / "artifact.json")
        artifact.check()
    except ArtifactError:
        cache.drop(KIND, key)
        return None
    return _own(artifact, captured, resolved, cache)


def _own(artifact: Artifact, captured: Captured, resolved: Resolved, cache: Cache) -> Artifact:
    """Return an artifact of the cache under its name; one that is code was made here, so that it is trusted."""
    if resolved.backend.code_in(artifact) is not None:
        trust.keep(cache, artifact.payload_path)
    return relabelled(artifact, captured, resolved)


def relabelled(artifact: Artifact, captured: Captured, resolved: Resolved) -> Artifact:
    """Return an artifact of the cache under the names that were asked for: other workloads and targets may share it."""
    target = replace(resolved.lowering, name=resolved.target.name)
    return replace(artifact, workload=captured.workload, target=str(target), media=captured.media)


def check_lowers(captured: Captured, resolved: Resolved) -> None:
    """Raise what stops this backend from lowering this program here, before anything heavy is imported."""
    backend = resolved.backend
    limit = "onnx_program" if captured.program_name.endswith(".onnx") else "torch_program"
    if limit in backend.limits:
        raise UnsupportedError(f"{backend.name} cannot take {captured.workload}: {backend.limits[limit]}.")  # type: ignore[index]
    if "dynamic_shapes" in backend.limits and any(isinstance(n, str) for spec in captured.inputs for n in spec.shape):
        reason = backend.limits["dynamic_shapes"]
        raise UnsupportedError(f"{backend.name} cannot take {captured.workload} with dynamic shapes: {reason}.")
    unavailable = missing_here(backend).lower
    if unavailable is not None:
        raise UnavailableError(f"{backend.name} {unavailable.reason}", unavailable.remedy)


def runs_nowhere(resolved: Resolved, placement: Placement) -> str:
    """Return why an artifact with operators without a kernel is refused, and what to do."""
    operators = ", ".join(placement.without_kernel)
    return f"{resolved.backend.title} leaves {operators} to a runtime that has no kernel for it. {ELSEWHERE}"


def _nothing_inside(resolved: Resolved, placement: Placement) -> UnsupportedError | LowerError:
    """Return the error of a payload without work of the backend; a compiler that does not say why has failed."""
    if not placement.left_count:
        title = resolved.backend.title
        return UnsupportedError(f"{title} finds no work in this program: its outputs are empty, constant or copies.")
    reasons = "; ".join(f"{row.name}: {row.why}" for row in placement.left[:REASONS] if row.why)
    instead = f" Use {resolved.backend.otherwise}." if resolved.backend.otherwise else ""
    if placement.without_kernel:
        instead = f" {ELSEWHERE}"
    kind = UnsupportedError if reasons else LowerError
    return kind(
        f"{resolved.backend.title} delegates 0 of {placement.left_count} operators"
        f"{f' ({reasons})' if reasons else ''}. No file written.{instead}"
    )


def artifact_key(captured: Captured, resolved: Resolved, *, bundled: bool = False) -> str:
    """Return the cache key: everything that the payload depends on."""
    machine = Machine.here()
    return key_of(
        {
            "program": captured.digest,
            "lines": captured.lines,
            "target": str(resolved.lowering),
            "versions": versions(resolved),
            "source": _source_digest(),
            "bundled": bundled,
            "device": resolved.backend.depends_on(resolved.options),
            "processor": [machine.arch, machine.cpu, *machine.isa] if resolved.backend.payload_depends_on_cpu else None,
        }
    )


def versions(resolved: Resolved) -> dict[str, str]:
    """Return the versions of what takes part in lowering: installed here, or pinned by the backend's toolchain."""
    own = {"cross-backend": __version__}
    if resolved.backend.toolchain is not None:
        return own | dict(TOOLCHAINS[resolved.backend.toolchain].pins)
    found = {name: version_of(name) for name in resolved.backend.distributions}
    return own | {name: version for name, version in found.items() if version is not None}


@functools.cache
def _source_digest() -> str:
    """Digest our own lowering code, so that a change to it is never served from the cache."""
    root = Path(__file__).parents[1]
    beside = ("artifact.py", "program/capture.py", "program/onnx_export.py", "program/pt2.py", "program/explicit.py")
    files = [*sorted((root / "backends").rglob("*.py")), *(root / name for name in beside)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
