"""Ray's cost: 200 short panels on two logical nodes, 10,000 simulated ones, and a panel by ``study run``, too.

The claims: 200 panels within 1.15 × the ideal; 10,000 panels at most 5 ms of the driver's processor time each, in
memory that stays within 5 %; medians within the noise floor. In the first two only what a node does for a panel is
simulated (a launch of fixed durations after so many seconds); placing, streaming and storing are the real code.
``cluster.py 20 500`` for fewer panels, ``cluster.py 0 0`` for the last claim alone.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from _table import show

from cross_backend.cache import Cache
from cross_backend.measurement import Measurement
from cross_backend.records import Launch, Outcome, Result
from cross_backend.store import Store
from cross_backend.study.books import Book
from cross_backend.study.driver import run as run_study
from cross_backend.study.driver import run_by
from cross_backend.study.launchers.cluster import connected
from cross_backend.study.launchers.launcher import PanelJob
from cross_backend.study.launchers.ray import RayLauncher
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.study.watch import Watch

PANEL_S = 0.5
NODES = 2
LATENCY = Measurement("latency", "ns", tuple((5000.0, 5010.0, 4990.0) for _ in range(6)), (6,))


def simulated(seconds: float) -> Any:
    """Give what a node does instead of measuring; Ray sends it with its code."""
    latency = LATENCY

    def call(pickled: bytes, *_prepared: Any) -> Iterator[Any]:
        import pickle
        import time

        from cross_backend.study.launchers import events
        from cross_backend.study.launchers.there import describe, streamed

        spec = pickle.loads(pickled).spec

        def measure(tell: Any) -> None:
            tell(events.Begun(describe(spec.targets)))
            time.sleep(seconds)
            results = (Result(spec.workload.name, text, text, Outcome.OK, latency=latency) for text in spec.targets)
            tell(events.Launched(0, Launch(tuple(results))))

        yield from streamed(measure)

    return call


class Simulated(RayLauncher):
    """Places and stores as the launcher does; nothing is captured or measured."""

    def __init__(self, cluster: Any, seconds: float) -> None:
        import ray

        super().__init__(cluster)
        self._panel = ray.remote(num_cpus=0, max_retries=0, num_returns="streaming")(simulated(seconds))
        self._nothing = ray.put(b"")

    def _submit(self, preparing: Any) -> None:
        preparing.of = lambda _job: (self._nothing, self._nothing)
        super()._submit(preparing)


def run(address: str, panels: int, seconds: float, folder: Path) -> tuple[float, float, float, list[int]]:
    """Run panels; return wall time, processor time of this process and of its thread, and its memory at ten moments."""
    settings = StudySettings(launches=1, max_launches=1, instruments=())
    study = StudySpec(
        "bench", (WorkloadSpec("linear_regression", "x"),), ("cpu",), tuple(range(1, panels + 1)), settings=settings
    )
    memory: list[int] = []
    done = 0

    def finished(_panel: object) -> None:
        nonlocal done
        done += 1
        if done % max(1, panels // 10) == 0:
            memory.append(psutil.Process().memory_info().rss)

    with Store.open(str(folder / f"{panels}.sqlite")) as store, connected(address) as cluster:
        launcher = Simulated(cluster, seconds)
        (one,) = launcher.studies(study)
        book = Book(store, one)
        launcher.claim(book)
        jobs = [PanelJob(book, spec) for spec in one.panels()]
        began, busy, own = time.monotonic(), time.process_time(), time.thread_time()
        missing = launcher.launch(jobs, Watch(panel=finished))
        wall, spent, thread = time.monotonic() - began, time.process_time() - busy, time.thread_time() - own
        assert not missing and len(book.finished) == panels
    return wall, spent, thread, memory


def alike(address: str, folder: Path) -> list[tuple[str, str, str]]:
    """Measure a panel by ``study run`` and through Ray; return a row for each target."""
    settings = StudySettings(seconds=3, launches=5, max_launches=5, instruments=())
    study = StudySpec("alike", (WorkloadSpec.find("linear_regression"),), ("cpu", "openvino"), settings=settings)
    with Store.open(str(folder / "alike.sqlite")) as store:
        (here,) = run_study(study, store, Cache()).panels
        with connected(address) as cluster:
            results, missing = run_by(study, store, RayLauncher(cluster))
    assert not missing
    (there,) = results.panels
    floor = max(panel.noise_floor or 0.0 for panel in (here, there))
    rows = []
    for one, other in zip(here.results, there.results, strict=True):
        assert one.latency_ms is not None and other.latency_ms is not None
        ratio = other.latency_ms.value / one.latency_ms.value
        rows.append((f"{one.title} through Ray, over study run", f"{ratio:.3f}", f"1 ± {math.expm1(floor):.1%}"))
    return rows


def main() -> None:
    """Print the table."""
    short, many = (int(text) for text in (sys.argv[1:] or ["200", "10000"]))
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(NODES):
        made.add_node(num_cpus=1, resources={"machine:a": 1, "measure": 1})
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = simulation(made.address, short, many, Path(folder)) if short else []
            rows += alike(made.address, Path(folder))
    finally:
        made.shutdown()
    show("Ray's cost", ("what", "found", "claim"), rows, name="cluster")


def simulation(address: str, short: int, many: int, folder: Path) -> list[tuple[str, str, str]]:
    """Return the rows of simulated panels."""
    wall, *_ = run(address, short, PANEL_S, folder)
    ideal = short * PANEL_S / NODES
    _, spent, thread, memory = run(address, many, 0.0, folder)
    settled = memory[1:] or memory
    grown = max(settled) / min(settled) - 1
    return [
        (f"{short} panels of {PANEL_S} s on {NODES} nodes, over the ideal", f"{wall / ideal:.2f}", "≤ 1.15"),
        (f"driver's processor time for each of {many:,} panels, ms", f"{1000 * spent / many:.2f}", "≤ 5"),
        ("of that in our thread, the rest in Ray's", f"{1000 * thread / many:.2f}", ""),
        ("growth of its memory after the first tenth", f"{grown:.1%}", "≤ 5%"),
    ]


if __name__ == "__main__":
    os.environ.setdefault("RAY_TMPDIR", "/tmp/xb-bench")
    main()
