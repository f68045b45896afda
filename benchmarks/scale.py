"""Scale: ten million stored samples to one HTML page, and what bookkeeping takes of a small real study.

python benchmarks/scale.py [--samples 10000000]

The samples are drawn (log-normal durations with rare slow calls); storing and reporting do not know the difference.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from _table import show

from cross_backend.cache import Cache
from cross_backend.comparison import panel
from cross_backend.machine import Machine
from cross_backend.measurement import Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.records import Comparison, Launch, Outcome, Result
from cross_backend.store import Store
from cross_backend.study import driver
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec

TARGETS = (
    *("cpu", "openvino", "torch", "torch.compile", "executorch.xnnpack", "executorch.portable", "iree", "cuda"),
    *("onnxruntime.xnnpack", "onnxruntime.openvino"),
)
LAUNCHES, ROUNDS = 5, 30
MOST_S, MOST_BYTES, MOST_SHARE = 10.0, 2**30, 0.02


def drawn_study() -> StudySpec:
    """Give a study of 20 panels with 10 targets each."""
    names = ("resnet50", "mobilenet_v3_small", "vit_b_16", "bert_base", "whisper_tiny")
    workloads = tuple(WorkloadSpec(name, name) for name in names)
    return StudySpec("scale", workloads, TARGETS, batch_sizes=(1, 4, 16, 32), settings=StudySettings(launches=LAUNCHES))


def drawn_launch(chance: np.random.Generator, workload: str, samples: int) -> Launch:
    """Give a launch of all targets and a twin, each with so many samples."""

    def result(target: str, ms: float) -> Result:
        ns = chance.lognormal(np.log(ms * 1e6), 0.03, (ROUNDS, samples // ROUNDS))
        ns *= np.where(chance.random(ns.shape) < 0.02, 1 + chance.exponential(0.5, ns.shape), 1.0)
        rounds = tuple(array("q", row) for row in ns.astype(np.int64).tolist())
        return Result(
            workload,
            target,
            target,
            Outcome.OK,
            latency=Measurement("latency", "ns", rounds, (ROUNDS,)),
            comparison=Comparison(1e-6, 1e-6, 120.0, 1.0, 1e-4, verdict=True),
            placement=Placement({"X": 1}, (Operators("conv", 52),)),
            size_bytes=10_200_000,
            export_s=2.5,
            load_s=0.1,
            measurements=tuple(
                Measurement(f"cold_start.{part}", "ns", ((int(chance.lognormal(19, 0.1)),),), (1,))
                for part in ("process", "import", "load", "first_inference")
            ),
        )

    results = tuple(result(target, 1.5 + 0.4 * place) for place, target in enumerate(TARGETS))
    return Launch(results, result(TARGETS[0], 1.5), 0, (), 60.0)


def fill(path: Path, samples: int) -> float:
    """Write the drawn study; give the seconds that storing took."""
    study, chance, seconds = drawn_study(), np.random.default_rng(0), 0.0
    panels = study.panels()
    each = samples // (len(panels) * LAUNCHES * len(TARGETS))
    with Store.open(str(path)) as store:
        row = store.begin(study.name, study.to_json(), study.digest, Machine.here(), {"numpy": np.__version__})
        for spec in panels:
            for number in range(LAUNCHES):
                launch = drawn_launch(chance, spec.workload.name, each)
                began = time.perf_counter()
                store.keep_launch(row.id, spec.key, number, launch)
                seconds += time.perf_counter() - began
            store.finish_panel(row.id, spec.key)
        store.finish(row.id)
    return seconds


@dataclass(frozen=True)
class Ended:
    """What a process took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def report(database: Path, page: Path) -> Ended:
    """Write the page in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "cross_backend",
        "study",
        "report",
        "scale",
        "--db",
        str(database),
        "-o",
        str(page),
    ]
    began = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)  # it was waited for here, for its memory
    if process.returncode:
        raise SystemExit("the report failed; what it said is above.")
    unit = 1 if sys.platform == "darwin" else 1024
    return Ended(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)


class Stopwatch:
    """Wall time in the functions that it was put around; what one of them calls of another counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Give the function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - began

        return timed


STORE = (
    *("begin", "keep_launch", "keep_instruments", "finish_panel", "finish"),
    *("finished_panels", "launches", "instruments", "study"),
)
"""What the driver asks of the store."""


def bookkeeping(folder: Path) -> tuple[float, float, int]:
    """Run a small study; give its wall time, that of storing, reading and concluding, and the samples."""
    specs = tuple(WorkloadSpec.find(name) for name in ("linear_regression", "digits_cnn"))
    study, watch = StudySpec("bookkeeping", specs, ("cpu", "openvino", "null")), Stopwatch()
    with mock.patch.multiple(Store, **{name: watch.around(getattr(Store, name)) for name in STORE}):
        changed = {name: watch.around(getattr(driver, name)) for name in ("conclude", "remember", "read", "versions")}
        with mock.patch.multiple(driver, **changed), mock.patch.object(panel, "enough", watch.around(panel.enough)):
            began = time.perf_counter()
            with Store.open(str(folder / "small.sqlite")) as store:
                driver.run(study, store, Cache())
                wall_s = time.perf_counter() - began
                samples = store.find(study.name).samples
    return wall_s, watch.seconds, samples


def main() -> int:
    """Print the tables; 1 if a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored_s = fill(folder / "scale.sqlite", asked.samples)
        with Store.open(str(folder / "scale.sqlite")) as store:
            samples = store.find("scale").samples
        size = (folder / "scale.sqlite").stat().st_size
        ended = report(folder / "scale.sqlite", folder / "scale.html")
        page = (folder / "scale.html").stat().st_size
        small_s, own_s, small = bookkeeping(folder)
    show(
        f"{samples:,} samples: 20 panels × 10 targets and a twin × {LAUNCHES} launches",
        ("", "wall s", "CPU s", "peak MiB", "MiB written", "bytes/sample"),
        [
            ("store", f"{stored_s:.1f}", "", "", f"{size / 2**20:.0f}", f"{size / samples:.2f}"),
            (
                "study report, HTML",
                *(f"{seconds:.1f}" for seconds in (ended.wall_s, ended.cpu_s)),
                f"{ended.peak_bytes / 2**20:.0f}",
                f"{page / 2**20:.0f}",
                f"{page / samples:.2f}",
            ),
        ],
        name="scale_store",
    )
    show(
        "Bookkeeping: linear_regression and digits_cnn on cpu, openvino and null",
        ("samples", "study s", "store and conclude s", "share"),
        [(f"{small:,}", f"{small_s:.1f}", f"{own_s:.2f}", f"{own_s / small_s:.2%}")],
        name="scale_study",
    )
    too_much = ended.wall_s > MOST_S or ended.peak_bytes > MOST_BYTES or own_s > MOST_SHARE * small_s
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
