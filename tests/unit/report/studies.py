"""Studies made by hand: seeded samples of known shape for every figure that a report can show."""

from __future__ import annotations

import functools
import math
from array import array
from dataclasses import replace

import numpy as np

from cross_backend.machine import Machine
from cross_backend.measure.statistics import latency_ms
from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.records import Comparison, Execution, Outcome, Panel, Result, StudyResults
from tests.unit.measure.pairs import paired_ratio

MACHINE = Machine("AMD EPYC 7R13", ("avx2", "fma"), 2, 2, 8_000_000_000, "linux", "x86_64", "6.1.0", "3.11.2")
ROUNDS = 30
TITLES = ("onnxruntime", "OpenVINO", "XNNPACK", "XNNPACK int8", "AOTInductor", "eager", "IREE")
SPEED = (1.6, 1.62, 2.4, 1.3, 3.3, 6.2, 12.0)
"""Milliseconds of a call, batch 1."""
FAILURES = tuple(outcome for outcome in Outcome if outcome not in {Outcome.OK, Outcome.NOT_MEASURED})
"""How targets of a comparison may end that was not interrupted."""


def latency(median_ms: float, seed: int, runs: int = 40, rounds: int = ROUNDS) -> Measurement:
    """Give samples with a floor, a long tail and a drift that all targets of a panel share."""
    random = np.random.default_rng(seed)
    drift = 1 + 0.03 * np.sin(np.arange(rounds))
    found = []
    for index in range(rounds):
        tail = random.lognormal(-3.2, 0.9, runs) + (random.random(runs) < 0.01) * random.exponential(1.5, runs)
        found.append(array("q", (median_ms * 1e6 * drift[index] * (0.96 + tail)).astype(np.int64).tolist()))
    return Measurement("latency", "ns", tuple(found), (rounds // 3,) * 3 if rounds % 3 == 0 else ())


def measured(workload: str, title: str, median_ms: float, rank: int | None, seed: int, runs: int = 40) -> Result:
    """Give a result that every instrument has seen."""
    samples = latency(median_ms, seed, runs)
    int8 = "int8" in title
    sqnr = 31.0 + seed % 5 if int8 else math.inf if title == "eager" else 110.0 + seed % 20
    values = np.concatenate([np.asarray(row) for row in samples.rounds])
    return Result(
        workload,
        title.lower().replace(" int8", "?precision=int8").replace(" ", "_"),
        title,
        Outcome.OK,
        rank=rank,
        latency=samples,
        latency_ms=latency_ms(samples),
        mean_ms=float(values.mean()) / 1e6,
        comparison=Comparison(1e-6, 2e-2 if int8 else 2e-6, sqnr, 1.0, 1e-4, verdict=True),
        placement=Placement({"Delegate": 1}, (Operators("conv", 50),), (Operators("sort", 2, "no kernel for it"),)),
        size_bytes=2_700_000 if int8 else 10_200_000,
        export_s=12.0,
        load_s=0.25,
        execution=Execution("CPU", 0.98, 0.995, (("Cast", 2),), "int8" if int8 else "fp32"),
        measurements=instruments(median_ms, seed),
        absent={"energy": "no counter is readable here (no RAPL, no NVML)", "memory.device": "there is no accelerator"},
    )


def instruments(median_ms: float, seed: int) -> tuple[Measurement, ...]:
    """Give what all instruments beside latency saw of a target."""
    starts = {"process": 0.03, "import": 0.4 + 0.05 * seed, "load": 0.2 + 0.1 * seed, "first_inference": 0.01}
    memory = {"peak_rss": 180e6 + 3e7 * seed, "pss": 150e6 + 3e7 * seed, "retained": 90e6}
    rate = 1000 / median_ms
    streams = {1: rate, 2: rate * 1.7, 4: rate * 1.8}
    loads = {50: 1.05, 70: 1.2, 90: 2.0}
    return (
        *(
            Measurement(f"cold_start.{k}", "ns", tuple((v * 1e9 * f,) for f in (0.9, 1, 1.2)))
            for k, v in starts.items()
        ),
        *(Measurement(f"memory.{k}", "B", ((v,),)) for k, v in memory.items()),
        *(Measurement(f"throughput.streams_{n}", "1/s", ((v * 0.97, v, v * 1.02),)) for n, v in streams.items()),
        *(
            Measurement(f"open_loop.{n}", "ns", latency(median_ms * factor, seed + 1000, 60).rounds)
            for n, factor in loads.items()
        ),
    )


@functools.cache
def panel(
    workload: str = "mobilenet_v3_small", batch: int = 1, targets: int = 7, runs: int = 40, seed: int = 0
) -> Panel:
    """Give a panel of measured targets, the first two tied, and one of each other end."""
    names = [TITLES[i] if i < len(TITLES) else f"Backend {i}" for i in range(targets)]
    speeds = [SPEED[i] if i < len(SPEED) else 2.0 + i * 0.7 for i in range(targets)]
    order = sorted(range(targets), key=lambda i: speeds[i])
    ranks = {i: place + 1 for place, i in enumerate(order)}
    if targets > 1:
        ranks[1] = ranks[0]
    found = [measured(workload, names[i], speeds[i] * batch**0.9, ranks[i], seed + i, runs) for i in range(targets)]
    if targets:
        leader = found[order[0]].latency
        found = [replace(result, ratio=ratio(result.latency, leader)) for result in found]
    failed = [
        Result(workload, outcome.lower(), f"Backend that is {outcome.title()}", outcome, f"reason of {outcome}")
        for outcome in FAILURES
    ]
    return Panel(
        workload, (*found, *failed), 0.055, {"threads": 1, "seed": 0}, MACHINE, batch=batch, launches=3,
        warnings=("12 % of the processor's time was stolen by other virtual machines",) if batch == 8 else (),
        found_from=0.083 if batch == 1 else 0.1234,
    )  # fmt: skip


def ratio(one: Measurement | None, leader: Measurement | None) -> Interval | None:
    """Give what a panel says of a target that was measured beside its leader."""
    assert one is not None and leader is not None
    return Interval(1.0, 1.0, 1.0) if one is leader else paired_ratio(one, leader)


def study(*panels: Panel, name: str = "quick test") -> StudyResults:
    """Give a study of these panels; of two workloads at two batches where none is named."""
    found = panels or tuple(
        panel(workload, batch, seed=10 * index + batch)
        for index, workload in enumerate(("mobilenet_v3_small", "resnet50"))
        for batch in (1, 8)
    )
    return StudyResults(
        name,
        found,
        MACHINE,
        {"torch": "2.13.0", "onnxruntime": "1.31.1", "openvino": "2026.4.1"},
        {"margin": 0.01, "seed": 0, "batch_sizes": [1, 8]},
        "2026-11-21T13:00:00+01:00",
    )


def with_task(found: Panel) -> Panel:
    """Give the panel with a task metric for everything that was measured."""
    rows = tuple(
        replace(r, task={"top-1 accuracy": 0.91 if "int8" in r.title else 0.925}) if r.outcome is Outcome.OK else r
        for r in found.results
    )
    return replace(found, results=rows)
