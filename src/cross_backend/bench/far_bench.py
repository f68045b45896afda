"""Far bench: a worker on another machine; files that a question names are copied there first."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from cross_backend.bench.bench import Opened, Subject
from cross_backend.bench.open_artifact import check_code
from cross_backend.bench.there import Trust
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.bundling import find_artifact
from cross_backend.cache import Cache
from cross_backend.errors import UnsupportedError, WorkerError
from cross_backend.places.place import Place
from cross_backend.registry import resolve
from cross_backend.worker.process import Worker
from cross_backend.worker.question import Answer, Question

Value = TypeVar("Value")
MOST_OUTPUT_BYTES = 4 << 30
"""Of one file that a question wrote."""


class FarBench(WorkerBench):
    """Asks a worker at a place."""

    def __init__(self, worker: Worker, timeout_s: float, place: Place) -> None:
        """Use a worker, which ends with the bench; the place stays open."""
        super().__init__(worker, timeout_s)
        self._place = place

    @property
    def pid(self) -> None:  # type: ignore[override]
        """No process of this machine."""
        return None

    def _ask(self, question: Question[Answer]) -> Answer:
        written: dict[str, Path] = {}
        try:
            answer = super()._ask(self._there(question, written))
        except WorkerError as error:
            self._place.raise_if_lost(error)
            raise
        for there, here in written.items():
            self._place.pull(there, here, MOST_OUTPUT_BYTES)
        return answer

    def open(self, subject: Subject) -> Opened:  # noqa: D102  the declaration says it
        self._trust(subject)
        return replace(super().open(subject), process_ns=None)  # two machines' clocks say nothing of each other

    def _trust(self, subject: Subject) -> None:
        """Let code that is trusted here run there."""
        if not subject.has_manifest:
            return
        artifact, resolved = find_artifact(subject.payload), resolve(subject.target)
        if resolved.backend.code_in(artifact) is not None:
            check_code(artifact, resolved, Cache())
            self._ask(Trust(artifact.payload_path))

    def _there(self, value: Value, written: dict[str, Path]) -> Value:
        """Return a question, or a part of one, with the paths of files there."""
        if isinstance(value, Subject):
            return replace(value, payload=Path(push_subject(self._place, value)))
        if not is_dataclass(value) or isinstance(value, type):
            return value
        changed: dict[str, Any] = {}
        for field in fields(value):
            part = getattr(value, field.name)
            if not isinstance(part, Path):
                changed[field.name] = self._there(part, written)
            elif not field.metadata.get("written"):
                changed[field.name] = Path(push_file(self._place, part))
            elif part.is_dir():
                raise UnsupportedError("it runs on another machine, which hands nothing over in shared memory.")
            else:
                there = f"{self._place.scratch}/{part.name.encode().hex()[:64]}{part.suffix}"
                written[there] = part
                changed[field.name] = Path(there)
        return replace(value, **changed)


def push_file(place: Place, path: Path) -> str:
    """Copy one file, or a folder, there and return its path."""
    return f"{place.push(_listed(path, path.name))}/{path.name}"


def push_subject(place: Place, subject: Subject) -> str:
    """Copy an artifact there, with its manifest and sample, and return the path of its payload."""
    if not subject.has_manifest:
        return push_file(place, subject.payload)
    artifact = find_artifact(subject.payload)
    sample = artifact.sample_path
    # The manifest as it is for an artifact that stands alone; one of a bundle has none of its own.
    alone = replace(
        artifact,
        name="artifact",
        payload=f"artifact{artifact.payload_path.suffix if artifact.payload_path.is_file() else ''}",
        sample="sample.npz" if sample else None,
        bundled=None,
        bundled_sha256=None,
        described_by=None,
    )
    folder = Path(tempfile.mkdtemp(prefix="cb-"))
    try:
        manifest = folder / "artifact.json"
        manifest.write_text(json.dumps(alone.to_json(), sort_keys=True))
        files = {"artifact.json": manifest, **_listed(artifact.payload_path, alone.payload)}
        return f"{place.push({**files, **(_listed(sample, 'sample.npz') if sample else {})})}/{alone.payload}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listed(path: Path, name: str) -> dict[str, Path]:
    """Return name → file, of a file or all files of a folder."""
    if not path.is_dir():
        return {name: path}
    return {f"{name}/{one.relative_to(path).as_posix()}": one for one in sorted(path.rglob("*")) if one.is_file()}
