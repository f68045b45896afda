"""One bundle of three backends, made once for each file of tests."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from cross_backend.artifact import Artifact
from cross_backend.bundling import write_bundle
from cross_backend.cache import Cache
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import Captured
from cross_backend.program.writing import write_capture
from cross_backend.registry import resolve
from cross_backend.workloads import Workload
from cross_backend.workloads.media import ImageMedia
from tests.unit.bundling.bundles import LABELS, MEASURED, NULL, OPENVINO, TORCH, Typed, Write


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    x = torch.arange(12, dtype=torch.float32).reshape(4, 3) - 5
    media = ImageMedia(labels=LABELS, trained=False)
    workload = Workload("typed", Typed(), (x, torch.tensor([3, 0])), labels=LABELS, media=media)
    return write_capture(workload, tmp_path_factory.mktemp("captured"))


@pytest.fixture(scope="module")
def rows(captured: Captured) -> list[tuple[Artifact, str, str, float]]:
    """Lower to a file, to a folder of files, and to a file again."""
    found = []
    for target in ("null", "openvino", "torch"):
        resolved = resolve(target)
        artifact = lower(captured, resolved, Cache()).artifact
        found.append((artifact, f"{captured.workload}_{resolved.stem}", resolved.backend.title, {"tolerance": 1e-4}))
    return found


@pytest.fixture(scope="module")
def write(captured: Captured, rows: list[tuple[Artifact, str, str, float]]) -> Write:
    def written(parent: Path, **more: Any) -> Path:
        parent.mkdir(parents=True, exist_ok=True)
        orders = {"linux": [OPENVINO, TORCH], "web": [TORCH, NULL]}
        return write_bundle(captured, rows, orders, {TORCH: MEASURED}, parent, **more)

    return written


@pytest.fixture(scope="module")
def made(write: Write, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("made"))


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """Copy the bundle, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "bundle"))
