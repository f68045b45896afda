"""Load: open one artifact, after its digest, its backend and the code that it may hold were checked."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.backend import Session
from cross_backend.backend.remembering import load_session
from cross_backend.bench.open_artifact import check_code, settled
from cross_backend.bundling import find_artifact
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, UnavailableError, UsageError
from cross_backend.names.target import Target
from cross_backend.registry import Resolved, check_runs, resolve


def load(artifact: Artifact | Path | str, *, trust: bool = False, **options: Any) -> Session:
    """Return a session for an artifact; ``with`` opens it.

    Example:
        >>> with xb.load(artifact) as session:
        ...     output = session(example)
        >>> output.shape
        torch.Size([1, 2])

    Args:
        artifact: an artifact, or the path of its payload or manifest.
        trust: open it although it holds code that was not made on this machine; remembered by its digest.
        options: override load options of its target, for example ``threads=1``.

    Raises:
        ArtifactError: missing, damaged, or the payload is not what the manifest says.
        UntrustedError: it holds code from elsewhere.
        UnavailableError: its backend cannot run here.
    """
    if not isinstance(artifact, Artifact):
        artifact = find_artifact(Path(artifact))
    made = resolve_artifact(artifact)
    wanted = {**made.target.options, **{key: str(value) for key, value in options.items()}}
    resolved = resolve(Target(made.target.name, wanted))
    if resolved.lowering != made.lowering:
        raise UsageError(
            f"{artifact.name} was lowered as {artifact.target}; options of lowering cannot change at load."
        )
    check_runs(resolved)
    if resolved.python != sys.executable:
        raise UnavailableError(
            f"{resolved.backend.name} runs under the interpreter of its toolchain, not in this process",
            f"cross-backend run {artifact.payload_path}",
        )
    artifact.check()
    artifact = settled(artifact, Cache())
    check_code(artifact, resolved, Cache(), trust=trust)
    return load_session(resolved.backend, replace(artifact, target=str(resolved.target)), resolved.options)


def resolve_artifact(artifact: Artifact) -> Resolved:
    """Find an artifact's backend.

    Raises:
        ArtifactError: this version does not know the target that the manifest names.
    """
    try:
        return resolve(artifact.target)
    except UsageError as error:
        raise ArtifactError(f"{artifact.manifest_path} names a target that is not known here: {error}") from error
