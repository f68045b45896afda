"""Catalogue: which models can be played with here, and on which backends; what cannot is there with its reason."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.bundling import is_bundle, is_payload, open_bundle
from cross_backend.bundling.manifest import MANIFEST
from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError, UnavailableError, UsageError, one_line
from cross_backend.generation.continuing import prompts_of
from cross_backend.loading.found import is_other_json
from cross_backend.loading.load import resolve_artifact
from cross_backend.loading.media import media_of
from cross_backend.registry import Role, backends, find_backend, missing_here, role_of
from cross_backend.workloads.media import Media

NULL = "null"
"""The backend that computes nothing; no one plays with it."""


@dataclass(frozen=True)
class Choice:
    """A model on a backend."""

    key: str
    """Short, and safe in addresses."""
    workload: str
    target: str
    title: str
    """How tables call the target."""
    artifact: Artifact | None
    """None where it was not exported."""
    unavailable: str = ""
    """Why it cannot be run here; empty where it can."""
    made: str = ""
    """Date and time of its file, to the minute; empty where it was not exported."""


@dataclass(frozen=True)
class Playable:
    """A workload and all backends: those that can run it first."""

    name: str
    choices: tuple[Choice, ...]
    media: Media | None = None
    """What it works on beside tensors; None where it runs on the sample input only."""

    @property
    def usable(self) -> list[Choice]:
        """What can be run."""
        return [choice for choice in self.choices if not choice.unavailable]


class Catalogue:
    """What lies in bundles and folders of exports that were named, and in the cache where none was."""

    def __init__(self, paths: Sequence[Path], cache: Cache) -> None:
        """Read what was named.

        Raises:
            UsageError: a path does not exist.
            ArtifactError: a bundle is damaged, or a folder holds no artifact.
        """
        self._cache = cache
        self._named = [artifact for path in paths for artifact in _artifacts_at(path, cache)]
        self._use_cache = not paths
        self._seen: int | None = None
        self._models: dict[str, Playable] = {}

    def models(self) -> dict[str, Playable]:
        """Return name → model, sorted; the cache is read again when something was exported meanwhile."""
        folder = self._cache.root / "artifacts"
        now = folder.stat().st_mtime_ns if self._use_cache and folder.is_dir() else 0
        if now != self._seen:
            found = self._named + (_newest(folder) if self._use_cache else [])
            self._models, self._seen = _by_model(found), now
        return self._models

    def choice(self, key: str) -> Choice:
        """Return a choice by its key.

        Raises:
            UsageError: there is none.
        """
        for model in self.models().values():
            for choice in model.choices:
                if choice.key == key:
                    return choice
        raise UsageError("there is no such artifact; GET /api/models lists them.")


def _artifacts_at(path: Path, cache: Cache) -> list[Artifact]:
    """Read all artifacts of a bundle, a folder of exports or bundles, or one payload."""
    if not path.exists():
        raise UsageError(f"{path} does not exist.")
    if is_bundle(path):
        return list(open_bundle(path, cache).artifacts)
    if not path.is_dir() or is_payload(path):
        return [Artifact.read(path)]
    bundles = [inner.parent for inner in sorted(path.glob(f"*/{MANIFEST}"))]
    found = [artifact for folder in bundles for artifact in open_bundle(folder, cache).artifacts]
    found += [Artifact.read(one) for one in sorted(path.glob("*.json")) if not is_other_json(one)]
    if not found:
        raise UsageError(f"{path} holds no artifacts; write some with 'cross-backend export --output-dir {path}'.")
    return found


def _newest(folder: Path) -> list[Artifact]:
    """Read the cache's artifacts: of one model on one target the last that was made."""
    found: dict[tuple[str, str], tuple[float, Artifact]] = {}
    for manifest in folder.glob("*/artifact.json"):
        try:
            artifact, made = Artifact.read(manifest), manifest.stat().st_mtime
        except (CrossBackendError, OSError):
            continue  # damaged or of another version: whoever exports it drops it
        key = artifact.workload, artifact.target
        if key not in found or found[key][0] < made:
            found[key] = made, artifact
    return [artifact for _, artifact in found.values()]


def _by_model(artifacts: Sequence[Artifact]) -> dict[str, Playable]:
    by_name: dict[str, list[Choice]] = {}
    for artifact in artifacts:
        by_name.setdefault(artifact.workload, []).append(_choice(artifact))
    return {name: Playable(name, _with_absent(name, by_name[name]), _media(by_name[name])) for name in sorted(by_name)}


def _media(choices: Sequence[Choice]) -> Media | None:
    """Return the media of the first artifact that says something of them, and whose words can be read here."""
    for choice in choices:
        assert choice.artifact is not None, "these were exported"
        with contextlib.suppress(CrossBackendError):
            media = media_of(choice.artifact)
            if choice.artifact.state:
                return prompts_of(choice.artifact, media)
            if media is not None:
                return media
    return None


def _choice(artifact: Artifact) -> Choice:
    key = hashlib.sha256(f"{artifact.folder}\0{artifact.name}\0{artifact.target}".encode()).hexdigest()[:16]
    title, unavailable = artifact.target, ""
    try:
        backend = resolve_artifact(artifact).backend
        options = artifact.target.partition("?")[2].replace("&", ", ")
        title, unavailable = f"{backend.title} {options}".strip(), _unavailable(backend.name)
    except CrossBackendError as error:
        unavailable = one_line(error)
    return Choice(key, artifact.workload, artifact.target, title, artifact, unavailable, _made(artifact))


def _made(artifact: Artifact) -> str:
    try:
        seconds = artifact.payload_path.stat().st_mtime
    except OSError:
        return ""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _with_absent(model: str, choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return the choices, those that run here first, and then every backend for which the model was not exported."""
    there = {choice.target.partition("?")[0] for choice in choices}
    absent = []
    for backend in backends():
        if backend.name not in there and backend.name != NULL:
            reason = (
                _unavailable(backend.name) or f"not exported; cross-backend export {model} --backends {backend.name}"
            )
            absent.append(Choice(f"{model}.{backend.name}", model, backend.name, backend.title, None, reason))
    return tuple(sorted(choices, key=_place)) + tuple(absent)


def _place(choice: Choice) -> tuple[bool, bool, str]:
    """Return the key that puts first what runs here, and of that what people ship."""
    return bool(choice.unavailable), role_of(choice.target) is not Role.PRODUCT, choice.title


@functools.cache
def _unavailable(name: str) -> str:
    """Return what stops a backend from running here; found out once, as packages do not change under a process."""
    try:
        unavailable = missing_here(find_backend(name)).run
    except UnavailableError as error:
        return one_line(error)
    return str(unavailable) if unavailable else ""
