"""Panel: one workload on many targets, compared on one machine; the project's main job.

    export ──▶ open each in an isolated worker ──▶ verify ──▶ measure in interleaved rounds ──▶ rank

Only one worker runs at a time. In every round each target is visited once, in an order shuffled by the
seed; a *twin* of the fastest target is visited too, and how far it seems from itself is the noise floor.
"""

from __future__ import annotations

import contextlib
import random
import statistics as stdlib_statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.capture import Captured
from cross_backend.errors import CrossBackendError, UnavailableError, one_line
from cross_backend.export import Exported, Observe, export, ignore, outcome_of
from cross_backend.export import Settings as ExportSettings
from cross_backend.machine import Machine
from cross_backend.measure.statistics import MIN_ROUNDS, latency_ms, noise_floor
from cross_backend.records import Measurement, Outcome, Panel, Result
from cross_backend.registry import Resolved, missing_here, resolve
from cross_backend.remembered import Measured, Memory
from cross_backend.selection import rank
from cross_backend.trial import WARM_CALLS, Settings, calibrate, open_worker, sample, verify
from cross_backend.workers import Worker
from cross_backend.workloads import Source

ROUNDS = 30
WARM_BELOW_MS = 50.0
"""Faster targets get untimed calls at the start of each visit: caches are cold after the others' turns."""
SWITCHES_PER_S = 50.0
"""More involuntary context switches a second than this, and the row carries a warning."""


@dataclass
class _Entrant:
    """A target on its way through the comparison."""

    exported: Exported
    result: Result
    worker: Worker | None = None
    rounds: list[tuple[int, ...]] = field(default_factory=list)
    estimate_ms: float = 0.0
    switches: int = 0

    @property
    def running(self) -> bool:
        return self.worker is not None and self.result.outcome is Outcome.OK

    def fail(self, error: CrossBackendError, otherwise: Outcome) -> None:
        """Record the end and stop the worker."""
        self.result = replace(self.result, outcome=outcome_of(error, otherwise), reason=one_line(error))
        if self.worker is not None:
            self.worker.kill()


Progress = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""


def _silent(doing: str, done: int, total: int) -> None:
    """Show no progress."""


def compare(
    source: Source | Captured,
    targets: Sequence[str],
    settings: Settings,
    exporting: ExportSettings,
    observe: Observe = ignore,
    progress: Progress = _silent,
) -> Panel:
    """Export, verify, measure and rank; a target that fails keeps its row and its reason.

    Raises:
        UsageError: a target that does not exist.
        CrossBackendError: the workload cannot be captured.
    """
    for text in targets:
        with contextlib.suppress(UnavailableError):  # a broken backend keeps its row; a wrong name ends it here
            resolve(text)
    captured, rows = export(source, targets, exporting, observe)
    return run_panel(captured, rows, settings, exporting.cache, progress)


def run_panel(
    captured: Captured, rows: Sequence[Exported], settings: Settings, cache: Cache, progress: Progress = _silent
) -> Panel:
    """Verify, measure and rank what was exported."""
    entrants = [_entrant(captured, row, rows[:index]) for index, row in enumerate(rows)]
    twin, interrupted = None, False
    with ExitStack() as stack:
        try:
            for step, entrant in enumerate(entrants):
                progress(f"open and verify {entrant.result.target}", step, len(entrants))
                _open(entrant, captured, settings, cache, stack)
            twin = _open_twin(entrants, settings, cache, stack)
            visited = [e for e in entrants if e.running] + ([twin[1]] if twin else [])
            _measure(visited, settings, progress)
        except KeyboardInterrupt:
            interrupted = True
    floor = noise_floor(_measurement(twin[0]), _measurement(twin[1])) if twin else None
    results = tuple(_ranked(entrants, floor))
    if not interrupted:
        remember(captured, results, settings, cache)
    return Panel(captured.workload, results, floor, asdict(settings), Machine.here(), interrupted)


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


def _entrant(captured: Captured, row: Exported, before: Sequence[Exported]) -> _Entrant:
    target = str(row.resolved.target) if row.resolved else row.text
    title = row.resolved.backend.title if row.resolved else row.text
    options = row.resolved.target.options if row.resolved else {}
    title = " ".join([title, *(f"{key}={value}" for key, value in options.items())])
    repeated = sum(
        row.resolved is not None and b.resolved is not None and b.resolved.target == row.resolved.target for b in before
    )
    result = Result(
        captured.workload, target, f"{title} #{repeated + 1}" if repeated else title, row.outcome, row.reason
    )
    if row.artifact is not None:
        result = replace(
            result,
            placement=row.artifact.placement,
            size_bytes=row.artifact.size_bytes,
            export_s=row.artifact.export_s,
            cached=row.cached,
        )
    return _Entrant(row, result)


def _open(entrant: _Entrant, captured: Captured, settings: Settings, cache: Cache, stack: ExitStack) -> None:
    """Open in a worker of its own, verify, score and estimate the duration of a call."""
    row = entrant.exported
    if row.artifact is None or row.resolved is None:
        return
    missing = missing_here(row.resolved.backend)
    if missing is not None and missing.run is not None:
        entrant.result = replace(entrant.result, outcome=Outcome.UNAVAILABLE, reason=str(missing.run))
        return
    try:
        row.artifact.check()
        entrant.worker, load_s = open_worker(
            row.artifact.payload_path, str(row.resolved.target), settings, cache, stack
        )
        entrant.result = replace(entrant.result, load_s=load_s)
    except CrossBackendError as error:
        entrant.fail(error, Outcome.LOAD_FAIL)
        return
    try:
        comparison, head = verify(entrant.worker, row.resolved.options, settings)
        entrant.result = replace(entrant.result, comparison=comparison, sample_output=head)
        if not comparison.verdict:
            entrant.result = replace(
                entrant.result, outcome=Outcome.MISMATCH, reason=f"wrong outputs: {comparison.reason}"
            )
            entrant.worker.kill()
            return
        if captured.metric is not None:
            score = entrant.worker.call("score", settings.timeout_s, task=str(captured.task_path))["value"]
            entrant.result = replace(entrant.result, task={captured.metric: score})
        entrant.estimate_ms = calibrate(entrant.worker, settings)
    except CrossBackendError as error:
        entrant.fail(error, Outcome.RUN_FAIL)


def _open_twin(
    entrants: Sequence[_Entrant], settings: Settings, cache: Cache, stack: ExitStack
) -> tuple[_Entrant, _Entrant] | None:
    """Open the fastest verified target a second time, in a process of its own."""
    running = [e for e in entrants if e.running]
    if not running:
        return None
    fastest = min(running, key=lambda e: e.estimate_ms)
    artifact, resolved = fastest.exported.artifact, fastest.exported.resolved
    assert artifact is not None and resolved is not None
    twin = _Entrant(fastest.exported, replace(fastest.result, title="twin"))
    try:
        twin.worker, _ = open_worker(artifact.payload_path, str(resolved.target), settings, cache, stack)
        twin.estimate_ms = calibrate(twin.worker, settings)
    except CrossBackendError:
        return None  # the ranking then says that the floor was not measured
    return fastest, twin


def measure_alone(worker: Worker, artifact: Artifact, resolved: Resolved, settings: Settings, load_s: float) -> Result:
    """Verify and measure one open artifact by itself, without a ranking."""
    result = Result(
        artifact.workload,
        artifact.target,
        resolved.backend.title,
        Outcome.OK,
        placement=artifact.placement,
        size_bytes=artifact.size_bytes,
        export_s=artifact.export_s,
        load_s=load_s,
    )
    comparison, head = verify(worker, resolved.options, settings)
    result = replace(result, comparison=comparison, sample_output=head)
    if not comparison.verdict:
        return replace(result, outcome=Outcome.MISMATCH, reason=f"wrong outputs: {comparison.reason}")
    exported = Exported(artifact.target, Outcome.OK, None, resolved, artifact)
    entrant = _Entrant(exported, result, worker, estimate_ms=calibrate(worker, settings))
    _measure([entrant], settings, _silent)
    return _ranked([entrant], None)[0]


def plan_visits(estimate_ms: float, settings: Settings) -> list[int]:
    """Give the timed calls of each round: ``num_runs`` in all, fewer where the time box is too short for them."""
    affordable = int(settings.seconds * 1000 / max(estimate_ms, 1e-6))
    runs = min(settings.num_runs, max(affordable, MIN_ROUNDS))
    return [runs * (k + 1) // ROUNDS - runs * k // ROUNDS for k in range(ROUNDS)]


def _measure(visited: Sequence[_Entrant], settings: Settings, progress: Progress) -> None:
    order = random.Random(settings.seed)  # noqa: S311  no secret: the order of turns
    plans = {id(e): plan_visits(e.estimate_ms, settings) for e in visited}
    for index in range(ROUNDS):
        progress("measure, interleaved", index, ROUNDS)
        for entrant in order.sample(visited, len(visited)):
            runs = plans[id(entrant)][index]
            block: tuple[int, ...] = ()
            if runs and entrant.running and entrant.worker is not None:
                warm = WARM_CALLS if entrant.estimate_ms < WARM_BELOW_MS else 0
                # The box only guards against a target that suddenly slows down: the plan already fits it.
                box = max(1.0, 5 * runs * entrant.estimate_ms / 1000)
                try:
                    answer = sample(entrant.worker, settings, runs, warm, box)
                    block = tuple(answer["ns"])
                    entrant.switches += answer["switches"]
                except CrossBackendError as error:
                    entrant.fail(error, Outcome.RUN_FAIL)
            entrant.rounds.append(block)
    progress("measure, interleaved", ROUNDS, ROUNDS)


def _measurement(entrant: _Entrant) -> Measurement:
    """Give the samples by round; an interrupted comparison has fewer rounds, which count as empty."""
    absent = ROUNDS - len(entrant.rounds)
    return Measurement("latency", "ns", (*entrant.rounds, *[()] * absent))


def _ranked(entrants: Sequence[_Entrant], floor: float | None) -> list[Result]:
    measured = {i: _measurement(e) for i, e in enumerate(entrants) if e.result.outcome is Outcome.OK and any(e.rounds)}
    latencies = {i: latency_ms(m) for i, m in measured.items()}
    ranks = rank(measured, {i: latency.value for i, latency in latencies.items()}, floor)
    results = []
    for i, entrant in enumerate(entrants):
        result = entrant.result
        if i in measured:
            result = replace(
                result,
                rank=ranks[i],
                latency=measured[i],
                latency_ms=latencies[i],
                mean_ms=stdlib_statistics.fmean(measured[i].values) / 1e6,
                warnings=_warnings(entrant, measured[i]),
            )
        elif result.outcome is Outcome.OK:
            outcome = Outcome.RUN_FAIL if result.comparison is None else Outcome.OK
            result = replace(result, outcome=outcome, reason="interrupted before it was measured")
        results.append(result)
    return results


def _warnings(entrant: _Entrant, measurement: Measurement) -> tuple[str, ...]:
    busy_s = sum(measurement.values) / 1e9
    if entrant.switches > max(SWITCHES_PER_S * busy_s, 10):
        return (f"{entrant.switches} involuntary context switches in {busy_s:.1f} s: other work disturbed it",)
    return ()
