"""Panel: one workload on many targets, compared on one machine; the project's main job.

export ──▶ launch: open each in an isolated worker ──▶ verify ──▶ measure in interleaved rounds ──▶ conclude: rank
           └──────────────── again in fresh processes, until it is precise enough ───────────┘
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.capture import Captured
from cross_backend.export import Exported, Observe, export, ignore
from cross_backend.export import Settings as ExportSettings
from cross_backend.launch import Progress, launch_alone, run_launch, silent
from cross_backend.machine import Machine
from cross_backend.measure.precision import precision_reached
from cross_backend.measure.statistics import latency_ms, noise_floor
from cross_backend.records import Launch, Outcome, Panel, Result
from cross_backend.registry import Resolved, check_targets
from cross_backend.remembered import Measured, Memory
from cross_backend.samples import Measurement
from cross_backend.selection import rank
from cross_backend.trial import Settings
from cross_backend.workers import Worker
from cross_backend.workloads import Source
from cross_backend.workloads.batching import unbatched_name


def compare(
    source: Source | Captured,
    targets: Sequence[str],
    settings: Settings,
    exporting: ExportSettings,
    observe: Observe = ignore,
    progress: Progress = silent,
) -> Panel:
    """Export, verify, measure and rank; a target that fails keeps its row and its reason.

    Raises:
        UsageError: a target that does not exist.
        CrossBackendError: the workload cannot be captured.
    """
    check_targets(targets)
    captured, rows = export(source, targets, exporting, observe)
    return run_panel(captured, rows, settings, exporting.cache, progress)


def run_panel(
    captured: Captured, rows: Sequence[Exported], settings: Settings, cache: Cache, progress: Progress = silent
) -> Panel:
    """Verify, measure and rank what was exported."""
    launches, interrupted = run_launches(captured, rows, settings, cache, progress=progress)
    workload = unbatched_name(captured.workload, captured.batch)
    panel = conclude(workload, launches, settings, captured.batch, Machine.here(), interrupted=interrupted)
    if not interrupted:
        remember(captured, panel.results, settings, cache)
    return panel


def run_launches(
    captured: Captured,
    rows: Sequence[Exported],
    settings: Settings,
    cache: Cache,
    before: Sequence[Launch] = (),
    keep: Callable[[int, Launch], None] = lambda _index, _launch: None,
    progress: Progress = silent,
) -> tuple[list[Launch], bool]:
    """Launch until it is enough; give all launches, those of ``before`` first, and whether that was interrupted.

    Args:
        captured: the workload.
        rows: what was exported, one a target.
        settings: how to measure.
        cache: where the workers' logs go.
        before: launches of this panel that were kept earlier.
        keep: called with the index and the launch as soon as a launch is whole.
        progress: told of every step; of all that may come, with a margin.
    """
    launches = list(before)
    while not enough(launches, settings):
        index = len(launches)

        def show(doing: str, done: int, total: int, index: int = index) -> None:
            prefix = f"launch {index + 1}: " if settings.most_launches > 1 else ""
            progress(f"{prefix}{doing}", index * total + done, settings.most_launches * total)

        launch, interrupted = run_launch(captured, rows, settings, cache, launches, show)
        launches.append(launch)
        if interrupted:
            return launches, True
        keep(index, launch)
    return launches, False


def measure_alone(worker: Worker, artifact: Artifact, resolved: Resolved, settings: Settings, load_s: float) -> Result:
    """Verify and measure one open artifact by itself, without a ranking."""
    launch = launch_alone(worker, artifact, resolved, settings, load_s)
    result = conclude(artifact.workload, [launch], settings, 1, Machine.here()).results[0]
    return replace(result, rank=None)


def enough(launches: Sequence[Launch], settings: Settings) -> bool:
    """Say whether there are as many launches as asked for, and they are as precise as asked for."""
    if not launches:
        return False
    if not any(result.latency and result.outcome is Outcome.OK for result in launches[-1].results):
        return True  # nothing runs: starting it again changes nothing
    if len(launches) < settings.launches:
        return False
    if settings.margin is None or len(launches) >= settings.most_launches:
        return True
    contest = [r.latency for r in _merged(launches) if r.latency is not None and r.unranked is None]
    if not contest:
        return True
    leader = min(contest, key=lambda latency: latency_ms(latency).value)
    others = [latency for latency in contest if latency is not leader]
    return precision_reached(leader, others, settings.margin, _floor(launches), len(contest))


def conclude(
    workload: str,
    launches: Sequence[Launch],
    settings: Settings,
    batch: int,
    machine: Machine,
    *,
    interrupted: bool = False,
) -> Panel:
    """Join the launches of a panel and rank what can be told apart."""
    floor = _floor(launches)
    results = [replace(result, workload=workload) for result in _merged(launches)]
    measured = {i: r.latency for i, r in enumerate(results) if r.outcome is Outcome.OK and r.latency is not None}
    latencies = {i: latency_ms(m) for i, m in measured.items()}
    contest = {i: m for i, m in measured.items() if results[i].unranked is None}
    ranks = rank(contest, {i: latencies[i].value for i in contest}, floor)
    for i, measurement in measured.items():
        results[i] = replace(
            results[i],
            rank=ranks.get(i),
            latency_ms=latencies[i],
            mean_ms=math.fsum(map(math.fsum, measurement.rounds)) / measurement.count / 1e6,
        )
    return Panel(
        workload,
        tuple(results),
        floor,
        asdict(settings),
        machine,
        interrupted,
        batch,
        len(launches),
        told_once(text for launch in launches for text in launch.warnings),
    )


def _merged(launches: Sequence[Launch]) -> list[Result]:
    rounds = [max((len(r.latency.rounds) for r in launch.results if r.latency), default=0) for launch in launches]
    return [merge([launch.results[i] for launch in launches], rounds) for i in range(len(launches[0].results))]


def merge(parts: Sequence[Result], rounds: Sequence[int]) -> Result:
    """Join what one target gave in several launches; a failure in any of them is its end.

    Args:
        parts: one a launch.
        rounds: of each launch. Where an interrupt came before a target's first visit, its rounds are empty: all
            targets of a panel have the same rounds.
    """
    at, failed = next(((i, part) for i, part in enumerate(parts) if part.outcome is not Outcome.OK), (0, None))
    if failed is not None:
        reason = f"in launch {at + 1}: {failed.reason}" if at else failed.reason
        return replace(failed, latency=None, reason=reason)
    first, latencies = parts[0], []
    if any(part.latency for part in parts):
        unvisited = (Measurement("latency", "ns", ((),) * count, (count,)) for count in rounds)
        latencies = [part.latency or empty for part, empty in zip(parts, unvisited, strict=True) if empty.rounds]
    if not latencies and first.comparison is None:
        return replace(first, outcome=Outcome.RUN_FAIL, reason="interrupted before it was measured")
    if not latencies and first.unranked is None:
        first = replace(first, reason="interrupted before it was measured")
    metrics: dict[str, list[Measurement]] = {}
    for part in parts:
        for measurement in part.measurements:
            metrics.setdefault(measurement.metric, []).append(measurement)
    loads = [part.load_s for part in parts if part.load_s is not None]
    return replace(
        first,
        latency=Measurement.joined(latencies) if latencies else None,
        measurements=tuple(map(Measurement.joined, metrics.values())),
        load_s=statistics.median(loads) if loads else None,
        warnings=told_once(text for part in parts for text in part.warnings),
    )


def told_once(warnings: Iterable[str]) -> tuple[str, ...]:
    """Give each warning once; those that differ in their numbers only by the first, with how many there were."""
    kinds: dict[str, list[str]] = {}
    for text in warnings:
        kinds.setdefault(re.sub(r"\d[\d.,]*", "#", text), []).append(text)
    return tuple(
        texts[0] if len(set(texts)) == 1 else f"{texts[0]} (the first of {len(texts)} such warnings)"
        for texts in kinds.values()
    )


def _floor(launches: Sequence[Launch]) -> float | None:
    """Give the noise floor from the launches that have a twin."""
    pairs = []
    for launch in launches:
        if launch.twin is not None and launch.twin_of is not None:
            first, twin = launch.results[launch.twin_of].latency, launch.twin.latency
            if first is not None and twin is not None:
                pairs.append((first, twin))
    if not pairs:
        return None
    firsts, twins = zip(*pairs, strict=True)
    return noise_floor(Measurement.joined(firsts), Measurement.joined(twins))


def remember(captured: Captured, results: Sequence[Result], settings: Settings, cache: Cache) -> None:
    """Keep what was measured together, so that fallback orders on this machine follow it."""
    machine = Machine.here()
    found = {
        r.target: Measured(
            r.rank,
            r.latency_ms.value,
            r.latency_ms.low,
            r.latency_ms.high,
            settings.threads,
            machine.digest,
            machine.cpu,
        )
        for r in results
        if r.rank is not None and r.latency_ms is not None
    }
    if len(found) > 1:
        Memory(cache).keep_measured(captured.digest, found)
