"""Bundles for loaders: written, edited, and what a loader says of one."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cross_backend.bundling import write_bundle
from cross_backend.cache import Cache
from cross_backend.lowering.lower import lower
from cross_backend.machine import Machine
from cross_backend.registry import resolve


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Opened:
    """What a loader said."""

    name: str | None
    rejected: list[str]
    error: str = ""
    why: str = field(default="", compare=False)


Open = Callable[..., Opened]


def write(captured: Any, targets: list[str], orders: dict[str, list[str]], parent: Path) -> Path:
    """Lower a captured program to several targets and bundle them."""
    rows = []
    for target in targets:
        resolved = resolve(target)
        artifact = lower(captured, resolved, Cache()).artifact
        rows.append((artifact, f"{captured.workload}_{resolved.stem}", resolved.backend.title, {"tolerance": 1e-4}))
    return write_bundle(captured, rows, orders, {}, parent)


def edit(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def expect(bundle: Path, index: int, change: Callable[[Any], None]) -> None:
    """Change what the bundle expects of one output; its digest is made to fit."""
    path = bundle / "sample" / f"expected_{index}.npy"
    tensor = np.load(path)
    change(tensor)
    np.save(path, tensor)

    def sign(manifest: dict[str, Any]) -> None:
        manifest["sample"]["expected"][index]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    edit(bundle, sign)


NOT_HERE = [
    "linear_regression_vulkan: this runtime does not hold VulkanBackend",
    "linear_regression_null: it needs the runtime null",
]


def evidence(platform: str, order: list[str], **machine: str) -> dict[str, Any]:
    """Give evidence in the manifest's form; of this machine, where nothing else is said of it."""
    here = Machine.here()
    return {
        "platform": platform,
        "machine": {"cpu": here.cpu, "arch": here.arch, "system": here.system, "digest": "0" * 16, **machine},
        "date": "2026-11-27T10:00:00Z",
        "order": [f"linear_regression_{stem}" for stem in order],
    }
