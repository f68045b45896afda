"""Verdicts: a network lowered to a target, judged as workers judge it; and a twin's payload under its manifest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.bench.open_artifact import OpenArtifact, open_session, resolve_with_threads
from cross_backend.bench.verification import verified
from cross_backend.errors import CrossBackendError
from cross_backend.records import Comparison
from cross_backend.registry import check_runs
from cross_backend.tensors import load_tensors
from tests.cases.networks import PARTS

TARGETS = ("portable", "xnnpack", "cpu", "openvino", "iree", "atalla", "torch")
EVERY = (
    *TARGETS,
    *("mnn", "ncnn", "ncnn?device=vulkan", "iree.vulkan", "executorch.atalla", "torch.compile", "torch.aot_inductor"),
    "browser.wasm",
)
"""All that run on a machine without an accelerator, Vulkan by Mesa's software driver."""


def lowered(name: str, target: str, folder: Path) -> Artifact:
    """Lower one of the networks."""
    module, inputs = dict(names())[name]()
    return xb.lower(xb.capture(module, inputs), target, name=name, output_dir=folder)


def judged(artifact: Artifact) -> Comparison:
    """Verify an artifact in this process."""
    resolved, options = resolve_with_threads(artifact.target, 1)
    check_runs(resolved)
    assert artifact.sample_path is not None
    one = OpenArtifact(lambda: open_session(artifact, resolved, options), load_tensors(artifact.sample_path))
    with contextlib.closing(one):
        return verified(one, "fp32").comparison


def verdict(name: str, target: str, folder: Path) -> str:
    """Return how a network ends on a target: an outcome, or the reason why there is none."""
    try:
        found = judged(lowered(name, target, folder))
    except CrossBackendError as error:
        return f"{type(error).__name__}: {error}"
    return f"{found.outcome}: {found.why}" if found.why else str(found.outcome)


def is_right(found: str, wanted: str | None) -> bool:
    """Whether a network about kinds of inputs ends OK, or is refused in one line that holds a text."""
    if wanted is None:
        return found == "OK"
    refused = found.startswith(("UnsupportedError: ", "NOT_PROVED: "))
    return refused and wanted in found and "\n" not in found


def twin_verdict(name: str, target: str, folder: Path) -> str:
    """Return how the twin's payload ends under the manifest of the right network; empty where one is not lowered."""
    try:
        right, wrong = (lowered(one, target, folder) for one in (name, f"{name}_wrong"))
    except CrossBackendError:
        return ""
    swapped = replace(right, payload=wrong.payload, sha256=wrong.sha256, size_bytes=wrong.size_bytes)
    return str(judged(swapped).outcome)


def names() -> Iterator[tuple[str, Any]]:
    """Yield the networks; twins are none of their own."""
    for part in PARTS:
        for name, value in vars(part).items():
            if callable(value) and getattr(value, "__module__", "") == part.__name__ and not isinstance(value, type):
                yield name, value
