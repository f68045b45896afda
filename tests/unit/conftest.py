"""What unit tests share: small captured programs, artifacts that cost nothing, and samples of a known distribution."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact, digest_path, size_of
from cross_backend.cache import Cache
from cross_backend.instruments import open_loop, throughput
from cross_backend.machine import Machine
from cross_backend.measure import latency
from cross_backend.measurement import Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.program.captured import Captured
from cross_backend.program.captures import capture_workload
from cross_backend.tensors import TensorSpec, save_tensors

ROUNDS = 30


@contextlib.contextmanager
def room(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size in the block, as a full disk would.

    No bytecode is written meanwhile: Python 3.11 keeps a file of which it wrote a part, and no later process can import
    that module (https://github.com/python/cpython/issues/126606).
    """
    resource = pytest.importorskip("resource", reason="no such limit on Windows")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    before_it, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before_it
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Give a cache of this test alone."""
    return Cache(tmp_path / "cache")


@pytest.fixture(scope="session")
def linear() -> Captured:
    """Capture the smallest workload once."""
    return capture_workload("linear_regression", None, Cache())


@pytest.fixture(scope="session")
def capture_net() -> Callable[[str], torch.export.ExportedProgram]:
    """Give a function that captures a linear layer with weights of its own by name."""

    def capture(name: str) -> torch.export.ExportedProgram:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(sum(name.encode()))
            return xb.capture(torch.nn.Linear(4, 2), (torch.ones(1, 4),))

    return capture


@pytest.fixture(scope="session")
def exported(
    capture_net: Callable[[str], torch.export.ExportedProgram],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Export ``net`` to four targets; not to be changed."""
    folder = tmp_path_factory.mktemp("exported")
    for target in ("null", "torch", "cpu", "openvino"):
        xb.lower(capture_net("net"), target, name="net", output_dir=folder)
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """Copy the exported artifacts, to be damaged."""
    return Path(shutil.copytree(exported, tmp_path / "models"))


@pytest.fixture
def machine() -> Machine:
    """Describe this computer."""
    return Machine.here()


@pytest.fixture
def make_artifact(tmp_path: Path) -> Callable[..., Artifact]:
    """Give a function that writes an artifact whose payload is any bytes."""

    def make(
        name: str = "net_null", folder: Path = tmp_path, payload: bytes = b"null\n", **changes: object
    ) -> Artifact:
        folder.mkdir(parents=True, exist_ok=True)
        file, sample = folder / f"{name}.null", folder / f"{name}.npz"
        file.write_bytes(payload)
        save_tensors(sample, {"input": [np.ones((1, 4), np.float32)], "expected": [np.ones((1, 1), np.float32)]})
        fields = {
            "folder": folder,
            "name": name,
            "target": "null",
            "workload": "net",
            "program": "p" * 64,
            "payload": file.name,
            "sha256": digest_path(file),
            "size_bytes": size_of(file),
            "inputs": (TensorSpec("x", "float32", (1, 4)),),
            "outputs": (TensorSpec("y", "float32", (1, 1)),),
            "placement": Placement({"Some": 1}, (Operators("conv", 3),), (Operators("sort", 1, "no kernel"),)),
            "versions": {"cross-backend": "0.1.0"},
            "export_s": 0.25,
            "sample": sample.name,
            "sample_sha256": digest_path(sample),
        }
        artifact = Artifact(**{**fields, **changes})
        artifact.write_manifest()
        return artifact

    return make


@pytest.fixture
def draw() -> Callable[..., list[Measurement]]:
    """Give a function that draws interleaved samples: targets share the slow drift of a round, as on a real machine."""

    def measurements(
        *scales: float, seed: int = 0, rounds: int = ROUNDS, noise: float = 0.01, drift: float = 0.3
    ) -> list[Measurement]:
        rng = np.random.default_rng(seed)
        weather = rng.lognormal(0.0, drift, rounds)
        rows = [
            tuple(
                tuple(int(v) for v in scale * 1e6 * weather[r] * rng.lognormal(0.0, noise, 10)) for r in range(rounds)
            )
            for scale in scales
        ]
        return [Measurement("latency", "ns", row) for row in rows]

    return measurements


class Clock:
    """Time that passes only where it is spent: what else the machine does changes nothing."""

    def __init__(self) -> None:
        self._ns = 0

    def perf_counter_ns(self) -> int:
        """Read it, which takes 100 ns."""
        self._ns += 100
        return self._ns

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clock by which all loops measure."""
    made = Clock()
    for module in (latency, open_loop, throughput):
        monkeypatch.setattr(module, "time", made)
    return made
