"""What the store's tests share: an empty database of either kind, and launches that look like measured ones."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg
import pytest

from cross_backend.machine import Machine
from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.records import Comparison, Execution, Further, Launch, Outcome, PanelKey, Result
from cross_backend.store import Store, StoredStudy
from tests.postgres import cluster

PANEL = PanelKey("net", 1, 1)
VERSIONS = {"torch": "2.13.0", "onnxruntime": "1.31.1"}


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Give the address of a running PostgreSQL."""
    with cluster() as url:
        yield url


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the store puts into the user's folder away from there."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder of this test alone."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def new_postgres(postgres: str) -> Iterator[Callable[[], str]]:
    """Give a function that makes an empty database and gives its address."""
    made: list[str] = []
    with psycopg.connect(postgres, autocommit=True) as connection:

        def make() -> str:
            made.append(f"studies_{len(made)}")
            connection.execute(f"CREATE DATABASE {made[-1]}")
            return postgres.replace("/postgres?", f"/{made[-1]}?")

        yield make
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the place of an empty database, of both kinds in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "studies.sqlite")
    return str(request.getfixturevalue("new_postgres")())


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    """Give an open, empty database."""
    with Store.open(where) as opened:
        yield opened


@pytest.fixture
def begin(machine: Machine) -> Callable[..., StoredStudy]:
    """Give a function that begins a study."""

    def start(store: Store, name: str = "quick", digest: str = "d" * 64, **changes: object) -> StoredStudy:
        given = {"spec": {"rounds": 30}, "machine": machine, "versions": VERSIONS, **changes}
        return store.begin(name, digest=digest, **given)

    return start


def launch(seed: int = 0, samples: int = 300, rounds: int = 10) -> Launch:
    """Give a launch of four targets: two measured (one with a twin), one wrong, one not there."""
    rng = np.random.default_rng(seed)

    def latency(scale_ns: float) -> Measurement:
        values = rng.lognormal(np.log(scale_ns), 0.05, (rounds, samples // rounds)).astype(np.int64)
        return Measurement("latency", "ns", tuple(array("q", row.tolist()) for row in values), (rounds,))

    good = Result(
        "net",
        "onnxruntime.cpu?threads=1",
        "ONNX Runtime (CPU)",
        Outcome.OK,
        latency=latency(1.5e6),
        latency_ms=Interval(1.5, 1.4, 1.6),
        mean_ms=1.52,
        comparison=Comparison(1e-6, 1e-6, float("inf"), 1.0, 1e-4, verdict=True),
        placement=Placement(
            {"X": 1}, (Operators("conv", 52),), (Operators("sort", 1, "no kernel", 17, ("m.py:3",)),), 0.99
        ),
        size_bytes=10_200_000,
        export_s=2.5,
        load_s=0.1,
        task={"top-1 accuracy": 0.7},
        warnings=("load «3.5»",),
        execution=Execution("CPU", 1.0, None, (("sort on CPU", 1),), "fp32"),
        measurements=(Measurement("cold_start.load", "ns", ((123_456_789,),)),),
        absent={"power": "no counter here"},
    )
    other = replace(good, target="openvino", title="OpenVINO", latency=latency(1.9e6), cached=True)
    wrong = Result("net", "iree.vulkan", "IREE", Outcome.MISMATCH, "wrong outputs: relative 1.7")
    absent = Result("net", "onnxruntime.cuda", "CUDA", Outcome.UNAVAILABLE, "no GPU; install one")
    return Launch(
        (good, other, wrong, absent), replace(good, title="twin", latency=latency(1.5e6)), 0, ("steal",), 12.5
    )


def further(seed: int = 0) -> Further:
    """Give what instruments gave for one target."""
    rng = np.random.default_rng(seed)
    return Further(
        measurements=(
            Measurement("throughput.streams_2", "1/s", (tuple(rng.uniform(50, 60, 5).tolist()),)),
            Measurement("memory.peak_rss", "B", ((5_000_000_000,),)),
        ),
        absent={"energy.per_inference": "no counter here"},
        task={"top-1 accuracy": 0.7},
    )
