"""Instruments: a real worker's figures, each with its unit; what fails leaves its reason and the others go on."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Bench, Opened, Subject, Verified
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.errors import UsageError, WorkerError
from cross_backend.instruments.cold_start import anatomy
from cross_backend.instruments.instrument import Pass
from cross_backend.instruments.table import INSTRUMENTS, in_order
from cross_backend.measurement import Measurement
from cross_backend.records import Further
from cross_backend.tensors import save_tensors
from cross_backend.worker.process import Worker

pytestmark = pytest.mark.fresh_workers

PATIENCE_S = 60.0
MB = 1_000_000
HEAVY = """
import time
from cross_backend.backend import Backend, Session

KEPT = []

class Heavy(Backend):
    name, title, suffix, distributions = "heavy", "Heavy", ".null", ()
    def missing(self, machine): return None
    def lower(self, *arguments): raise NotImplementedError
    def load(self, artifact, options): return Opened(artifact, options)

class Opened(Session):
    def _open(self):
        self.weights = b"x" * 200_000_000
        KEPT.append(b"x" * 50_000_000)
    def _bind(self, inputs): return self.call
    def call(self):
        time.sleep(0.002)
        return []
"""


def take(bench: Bench, names: Iterable[str], **settings: Any) -> Further:
    state = Pass(**settings)
    state.bench = bench
    for name in in_order(names):
        INSTRUMENTS[name].take(state)
    return state.further


def named(taken: Further) -> dict[str, Measurement]:
    assert len({m.metric for m in taken.measurements}) == len(taken.measurements)
    return {m.metric: m for m in taken.measurements}


@pytest.fixture
def opened(exported: Path, tmp_path: Path) -> Iterator[tuple[Bench, Opened, Verified]]:
    """Open a small network on ONNX Runtime in a worker, and verify it; give the answers."""
    with WorkerBench(Worker(tmp_path / "worker.log"), PATIENCE_S) as bench:
        opened = bench.open(Subject(exported / "net_onnxruntime.json", "onnxruntime.cpu", 1))
        yield bench, opened, bench.verify("fp32")


@pytest.fixture
def heavy(tmp_path: Path, make_artifact: Callable[..., Artifact]) -> Iterator[Bench]:
    """Open a session of 200 MB, of which opening leaves 50 MB behind for ever; its calls take 2 ms."""
    info = tmp_path / "site" / "heavy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: heavy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cross_backend.backends]\nheavy = heavy:Heavy\n")
    (tmp_path / "site" / "heavy.py").write_text(HEAVY)
    worker = Worker(tmp_path / "worker.log", variables={"PYTHONPATH": str(tmp_path / "site")})
    with WorkerBench(worker, PATIENCE_S) as bench:
        bench.open(Subject(make_artifact().manifest_path, "heavy", 1))
        yield bench


@pytest.fixture
def sys_class(tmp_path: Path) -> Iterator[Path]:
    """Give a tree like /sys/class in which a processor uses 20 W."""
    zone = tmp_path / "sys" / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("262143328850\n")
    stop, began = threading.Event(), time.perf_counter()

    def tick() -> None:
        (zone / "new").write_text(f"{int((time.perf_counter() - began) * 20e6)}\n")
        (zone / "new").rename(zone / "energy_uj")

    def keep_ticking() -> None:
        while not stop.wait(0.005):
            tick()

    tick()
    thread = threading.Thread(target=keep_ticking)
    thread.start()
    yield tmp_path / "sys"
    stop.set()
    thread.join()


def test_the_cold_start_is_told_step_by_step(opened: tuple[Bench, Opened, Verified]) -> None:
    bench, was_opened, verified = opened
    found = {m.metric: m.values[0] for m in anatomy(was_opened, verified)}
    assert list(found) == [f"cold_start.{step}" for step in ("process", "import", "load", "first_inference")]
    assert all(0 < ns < 60e9 for ns in found.values())
    assert found["cold_start.process"] > 20e6, "an interpreter does not start faster"
    assert found["cold_start.load"] / 1e9 == pytest.approx(was_opened.load_s)
    assert found["cold_start.first_inference"] < found["cold_start.process"]
    again = bench.verify("fp32")
    assert [m.metric for m in anatomy(was_opened, again)][-1] == "cold_start.load", "it was no first call"


def test_a_second_opening_is_not_cold(opened: tuple[Bench, Opened, Verified], exported: Path) -> None:
    bench, _, verified = opened
    again = bench.open(Subject(exported / "net_onnxruntime.json", "onnxruntime.cpu", 1))
    assert anatomy(again, verified) == ()
    assert (bench.verify("fp32").first_ns or 0) > 0


def test_importing_is_apart_from_loading(tmp_path: Path, make_artifact: Callable[..., Artifact]) -> None:
    """The null backend needs NumPy, which is imported before its session is opened."""
    with WorkerBench(Worker(tmp_path / "worker.log"), PATIENCE_S) as bench:
        opened = bench.open(Subject(make_artifact().manifest_path, "null", 1))
    assert opened.import_ns > 10 * opened.load_ns > 0


@pytest.mark.slow
def test_throughput_and_open_loop_of_a_real_session(opened: tuple[Bench, Opened, Verified]) -> None:
    taken = take(opened[0], ["open_loop", "throughput"], batch=4, seconds=0.5, streams=[2, 1])
    found = named(taken)
    rates = found["throughput.streams_1"]
    assert (rates.unit, len(rates.rounds), {len(row) for row in rates.rounds}) == ("1/s", 10, {1})
    assert min(found["throughput.streams_2"].values) > 0
    for load in (25, 50, 75, 90):
        metric = f"open_loop.{load}"
        assert (metric in found) != (metric in taken.absent)
    offered = found["open_loop.25"]
    assert offered.unit == "ns" and 2 <= len(offered.rounds) <= 10
    calls_per_s = sum(rates.values) / len(rates.values) / 4
    assert offered.count == pytest.approx(0.25 * calls_per_s * 0.5, rel=0.3), "a quarter of what one stream can do"


def test_throughput_counts_inferences_and_not_calls(heavy: Bench) -> None:
    taken = take(heavy, ["throughput"], batch=8, seconds=0.5, streams=[1])
    rates = sorted(named(taken)["throughput.streams_1"].values)
    assert 1000 < rates[5] <= 4000, "eight every 2 ms and some"


def test_saturation_is_told_and_gives_no_latency(heavy: Bench) -> None:
    taken = take(heavy, ["open_loop"], batch=1, seconds=0.1, capacity_per_s=4000)
    assert taken.measurements == ()
    assert list(taken.absent) == [f"open_loop.{load}" for load in (25, 50, 75, 90)]
    assert all(reason.startswith("saturated: ") and "calls a second" in reason for reason in taken.absent.values())


def test_memory_of_a_session_that_allocates(heavy: Bench) -> None:
    taken = take(heavy, ["memory"], batch=1)
    found = {metric: (m.unit, m.values[0]) for metric, m in named(taken).items()}
    assert {unit for unit, _ in found.values()} == {"B"}
    peak, pss = found["memory.peak_rss"][1], found["memory.pss"][1]
    assert 250 * MB < peak < 500 * MB
    assert 250 * MB < pss < peak
    assert 45 * MB < found["memory.retained"][1] < 80 * MB, "the weights were given back, what was kept was not"
    assert taken.absent["memory.device"].startswith("not measurable here: ")
    assert psutil.Process(heavy.pid or 0).memory_info().rss < peak - 150 * MB, "the session is closed"
    again = take(heavy, ["throughput"], batch=1, seconds=0.2, streams=[1])
    assert named(again), "and opened again for the next"


def test_energy_of_a_closed_loop(heavy: Bench, sys_class: Path) -> None:
    taken = take(heavy, ["energy"], batch=2, seconds=1, sys_class=sys_class)
    assert not taken.absent
    found = named(taken)
    assert {metric: m.unit for metric, m in found.items()} == {
        "energy.per_inference": "J",
        "power": "W",
        "power.idle": "W",
    }
    power, energy = found["power"], found["energy.per_inference"]
    assert sum(power.values) / 10 == pytest.approx(20, rel=0.15)
    assert found["power.idle"].values[0] == pytest.approx(20, rel=0.15)
    assert (len(power.rounds), len(energy.rounds)) == (10, 10)
    # The counter of this test stands still while its thread waits for a processor; one round says little.
    assert statistics.median(energy.values) >= 20 * 0.002 / 2 * 0.8, "20 W for 2 ms are 40 mJ for two inferences"
    assert statistics.median(energy.values) < 20 * 0.004
    assert taken.notes["energy.per_inference"] == "of the whole CPU, package-0 (RAPL), idle power included"


def test_what_cannot_be_measured_has_a_reason_and_no_number(heavy: Bench, tmp_path: Path) -> None:
    taken = take(heavy, ["energy", "accuracy"], batch=1, sys_class=tmp_path)
    assert taken.measurements == () and taken.task == {}
    assert taken.absent["energy.per_inference"].startswith("not measurable here: ")
    assert taken.absent["accuracy"] == "the workload has no task"


def test_accuracy_is_the_tasks_own(opened: tuple[Bench, Opened, Verified], tmp_path: Path) -> None:
    samples = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    save_tensors(tmp_path / "task.npz", {"input": [samples], "label": [np.array([0, 1, 0, 1, 0, 1])]})
    save_tensors(tmp_path / "other.npz", {"input": [samples], "label": [np.array([1, 0, 1, 0, 1, 0])]})
    scores = []
    for name in ("task", "other"):
        taken = take(opened[0], ["accuracy"], batch=1, task=("top-1", tmp_path / f"{name}.npz"))
        scores.append(taken.task["top-1"])
    assert sum(scores) == pytest.approx(1.0), "of two classes one is right"


def test_a_failing_instrument_does_not_end_the_others(heavy: Bench, tmp_path: Path) -> None:
    missing = ("top-1", tmp_path / "missing.npz")
    taken = take(heavy, INSTRUMENTS, batch=1, seconds=0.2, task=missing, sys_class=tmp_path)
    assert "missing.npz does not exist" in taken.absent["accuracy"]
    found = named(taken)
    assert {"memory.peak_rss", "throughput.streams_1", "open_loop.25"} <= found.keys()
    assert not found.keys() & taken.absent.keys()


def test_a_rate_that_brings_too_few_requests_is_not_offered(heavy: Bench) -> None:
    taken = take(heavy, ["open_loop"], batch=1, seconds=0.2, capacity_per_s=30)
    assert taken.absent["open_loop.25"] == "too slow: fewer than 5 requests in 0.2 s"
    assert set(taken.absent) == {"open_loop.25", "open_loop.50", "open_loop.75"}


def test_a_worker_that_dies_ends_all(heavy: Bench) -> None:
    threading.Timer(1.0, os.kill, (heavy.pid or 0, signal.SIGKILL)).start()
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        take(heavy, ["throughput", "energy"], batch=1, seconds=30, streams=[1])


def test_an_unknown_instrument_is_refused(heavy: Bench) -> None:
    with pytest.raises(UsageError, match=r"instrument 'memroy'.*'memory'"):
        take(heavy, ["memroy"], batch=1)
