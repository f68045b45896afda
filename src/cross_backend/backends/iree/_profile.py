"""What a device did in a run: IREE's own runner with its device profiling on, read by iree-profile."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.backends.iree._lower import ENTRY
from cross_backend.backends.iree._placement import kernel_of
from cross_backend.backends.iree._tools import tool
from cross_backend.errors import RunError
from cross_backend.records import Timing
from cross_backend.tensors import Tensors, to_numpy

_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Recorded:
    """The dispatches of one run."""

    rows: tuple[Timing, ...]
    on_device: int
    """Dispatches whose times the device itself wrote."""
    on_host: int
    """Dispatches that ran on the processor."""


def record(artifact: Artifact, inputs: Tensors, runs: int, device: Sequence[str], families: str) -> list[Recorded]:
    """Run a module some times in a process of its own, each time recorded.

    Args:
        artifact: its digest was checked.
        inputs: flat positional tensors.
        runs: how many.
        device: flags of iree-run-module that choose the device.
        families: what is to be recorded, in IREE's words.

    Raises:
        RunError: the runner or the reader failed.
    """
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for index, x in enumerate(inputs):
            path = Path(folder) / f"{index}.npy"
            np.save(path, np.array(to_numpy(x), order="C"))
            arguments.append(f"--input=@{path}")
        bundle = Path(folder) / "run.ireeprof"
        recorded = []
        for _ in range(runs):
            _say(
                "iree-run-module",
                f"--module={artifact.payload_path}",
                f"--function={ENTRY}",
                *device,
                *arguments,
                *(f"--output=@{Path(folder) / f'out{i}.npy'}" for i in range(len(artifact.outputs))),
                f"--device_profiling_mode={families}",
                f"--device_profiling_output={bundle}",
            )
            said = _say("iree-profile", "dispatch", "--format=jsonl", str(bundle))
            recorded.append(_read([json.loads(line) for line in said.splitlines() if line.startswith("{")]))
    return recorded


def _read(events: Sequence[Mapping[str, Any]]) -> Recorded:
    summary = next((event for event in events if event["type"] == "dispatch_summary"), None)
    if summary is None:
        raise RunError("iree-profile gave no summary.")
    groups = [event for event in events if event["type"] in {"dispatch_group", "host_dispatch_group"}]
    rows = tuple(
        Timing(kernel_of(str(group["key"])), "operator", int(group["valid"]), int(group["total_ns"]) / 1e6)
        for group in groups
        if group.get("total_ns") is not None and group["valid"]
    )
    return Recorded(rows, int(summary["valid_dispatches"]), int(summary["valid_host_dispatches"]))


def _say(program: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [tool(program), *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{program} did not end within {_TIMEOUT_S} s.") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise RunError(f"{program} failed: {(lines[-1] if lines else f'status {done.returncode}')[:300]}")
    return done.stdout
