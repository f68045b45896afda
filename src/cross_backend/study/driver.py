"""Driver of a study: panel after panel, launch after launch; everything finished is stored before the next begins.

study ──▶ panels ──▶ export ──▶ launches (each stored) ──▶ instruments (stored) ──▶ the panel is finished
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

from cross_backend import instruments
from cross_backend.cache import Cache
from cross_backend.capture import Captured
from cross_backend.errors import CrossBackendError, one_line
from cross_backend.export import Exported, Observe, export, ignore, outcome_of
from cross_backend.export import Settings as ExportSettings
from cross_backend.machine import Machine, version_of
from cross_backend.panel import conclude, remember, run_launches
from cross_backend.records import Further, Launch, Outcome, Panel, PanelKey, Result, StudyResults
from cross_backend.registry import resolve
from cross_backend.store import Store
from cross_backend.study.spec import PanelSpec, Study
from cross_backend.trial import Settings, open_worker, verify
from cross_backend.workloads import find_workload

INSTRUMENT_S = 2.0
"""Seconds of each closed loop and offered rate."""
MOST_RUNS = 20_000
"""Most timed calls of a target in a panel: enough for the interval of P99.9, and for nothing more."""

Progress = Callable[[str, float], None]
"""Called with (what is being done, share of the panel that is done)."""


def _silent(doing: str, share: float) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Watch:
    """What is told while a study runs."""

    begin: Callable[[Sequence[int]], None] = lambda _indices: None
    """Called with the indices of the panels that are left to do."""
    progress: Progress = _silent
    observe: Observe = ignore
    panel: Callable[[Panel], None] = lambda _panel: None
    """Called with every panel that was finished."""


def run(study: Study, store: Store, cache: Cache, watch: Watch | None = None) -> StudyResults:
    """Run a study, or go on with the unfinished one of the same content on this machine.

    Raises:
        KeyboardInterrupt: it was stopped; what was finished is stored, and the same call goes on.
        CrossBackendError: the store cannot be used.
    """
    watch = watch or Watch()
    specs = study.panels()
    row = store.begin(study.name, study.to_json(), study.digest, Machine.here(), versions(specs))
    done = store.finished_panels(row.id)
    left = [index for index, spec in enumerate(specs) if key_of(spec) not in done]
    watch.begin(left)
    for index in left:
        watch.panel(_run_panel(study, specs[index], row.id, store, cache, watch))
    store.finish(row.id)
    return read(store, row.id)


def _run_panel(study: Study, spec: PanelSpec, study_id: int, store: Store, cache: Cache, watch: Watch) -> Panel:
    key, settings = key_of(spec), settings_of(study, spec.threads)
    exporting = ExportSettings(
        cache, study.settings.jobs, study.settings.timeout_s, min_coverage=study.settings.min_coverage
    )
    watch.progress(f"{key}: capture and lower", 0.0)
    try:
        captured, rows = export(
            find_workload(spec.model, spec.weights, spec.batch), spec.targets, exporting, watch.observe
        )
    except CrossBackendError as error:
        return _without_program(key, spec, settings, error, study_id, store)
    launches, interrupted = run_launches(
        captured,
        rows,
        settings,
        cache,
        store.launches(study_id, key),
        lambda index, launch: store.keep_launch(study_id, key, index, launch),
        lambda doing, done, total: watch.progress(f"{key}: {doing}", 0.1 + 0.5 * done / total),
    )
    if interrupted:
        raise KeyboardInterrupt
    panel = conclude(key.workload, launches, settings, key.batch, Machine.here())
    if key.batch == 1:
        remember(captured, panel.results, settings, cache)
    _take_instruments(study, study_id, key, captured, rows, panel, settings, store, cache, watch)
    store.finish_panel(study_id, key)
    return with_further(panel, store.instruments(study_id, key))


def _without_program(
    key: PanelKey, spec: PanelSpec, settings: Settings, error: CrossBackendError, study_id: int, store: Store
) -> Panel:
    """Store a panel whose workload cannot be captured: every target says why."""
    outcome = outcome_of(error, Outcome.LOWER_FAIL)
    reason = f"the model cannot be captured: {one_line(error)}"
    launch = Launch(tuple(Result(key.workload, text, text, outcome, reason) for text in spec.targets))
    store.keep_launch(study_id, key, 0, launch)
    store.finish_panel(study_id, key)
    return conclude(key.workload, [launch], settings, key.batch, Machine.here())


def _take_instruments(
    study: Study,
    study_id: int,
    key: PanelKey,
    captured: Captured,
    rows: Sequence[Exported],
    panel: Panel,
    settings: Settings,
    store: Store,
    cache: Cache,
    watch: Watch,
) -> None:
    """Take the further instruments on each target that works, alone in a fresh process; each is stored."""
    if not study.settings.instruments:
        return
    done = store.instruments(study_id, key)
    todo = [i for i, r in enumerate(panel.results) if r.latency_ms is not None and i not in done]
    for step, index in enumerate(todo):
        result, row = panel.results[index], rows[index]
        watch.progress(f"{key}: further measurements of {result.title}", 0.6 + 0.4 * step / len(todo))
        assert row.artifact is not None and row.resolved is not None and result.latency_ms is not None
        task = None if captured.metric is None else (captured.metric, captured.task_path)
        with ExitStack() as stack:
            try:
                worker, _ = open_worker(row.artifact.payload_path, str(row.resolved.target), settings, cache, stack)
                verify(worker, row.resolved.options, settings)
                further = instruments.take(
                    worker,
                    study.settings.instruments,
                    batch=key.batch,
                    timeout_s=settings.timeout_s,
                    seconds=INSTRUMENT_S,
                    seed=settings.seed,
                    task=task,
                )
            except CrossBackendError as error:
                reason = f"its worker failed: {one_line(error)}"
                further = Further(absent=dict.fromkeys(study.settings.instruments, reason))
        store.keep_instruments(study_id, key, index, further)


def with_further(panel: Panel, found: Mapping[int, Further]) -> Panel:
    """Add what further instruments gave to a panel's results."""
    results = list(panel.results)
    for index, further in found.items():
        result = results[index]
        results[index] = replace(
            result,
            measurements=(*result.measurements, *further.measurements),
            absent={**result.absent, **further.absent},
            task={**result.task, **further.task},
            notes={**result.notes, **further.notes},
        )
    return replace(panel, results=tuple(results))


def key_of(spec: PanelSpec) -> PanelKey:
    """Give the key under which a panel is stored."""
    return PanelKey(spec.workload.name, spec.batch, spec.threads)


def settings_of(study: Study, threads: int) -> Settings:
    """Give how the panels of a study are measured."""
    asked = study.settings
    return Settings(
        num_runs=MOST_RUNS,
        seconds=asked.seconds,
        threads=threads,
        timeout_s=asked.timeout_s,
        seed=asked.seed,
        launches=asked.launches,
        max_launches=asked.max_launches,
        margin=asked.margin,
        min_on_device=asked.min_on_device,
        memory_limit_bytes=asked.memory_limit,
    )


def versions(specs: Sequence[PanelSpec]) -> dict[str, str]:
    """Give the installed version of every distribution that a study's targets name."""
    names = {"cross-backend", "numpy"}
    for text in dict.fromkeys(text for spec in specs for text in spec.targets):
        with contextlib.suppress(CrossBackendError):
            names |= set(resolve(text).backend.distributions)
    found = {name: version_of(name) for name in sorted(names)}
    return {name: version for name, version in found.items() if version is not None}


def read(store: Store, study_id: int) -> StudyResults:
    """Put together what is stored of a study."""
    row = store.study(study_id)
    study = Study.from_json(row.spec)
    panels = []
    for spec in study.panels():
        key = key_of(spec)
        launches = store.launches(study_id, key)
        if launches:
            panel = conclude(key.workload, launches, settings_of(study, key.threads), key.batch, row.machine)
            panels.append(with_further(panel, store.instruments(study_id, key)))
    settings = asdict(study.settings)
    return StudyResults(
        row.name, tuple(panels), row.machine, row.versions, settings, row.started, row.finished is not None
    )
