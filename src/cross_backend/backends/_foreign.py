"""What backends that read files of others share: an artifact of what such a file says itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from cross_backend.artifact import Artifact, digest_path
from cross_backend.placement import Placement
from cross_backend.tensors import TensorSpec


def artifact_of(
    payload: Path,
    target: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    delegates: Counter[str] | None = None,
) -> Artifact:
    """Return the artifact of a payload of which nothing else is known; there is no sample."""
    return Artifact(
        folder=payload.parent,
        name=payload.stem,
        target=target,
        workload=payload.stem,
        program="",
        payload=payload.name,
        sha256=digest_path(payload),
        size_bytes=payload.stat().st_size,
        inputs=inputs,
        outputs=outputs,
        placement=Placement(delegates or {}),
        versions={},
        export_s=0.0,
    )
