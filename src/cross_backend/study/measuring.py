"""Measuring: one panel on one machine: launches, then further instruments; each is kept before the next begins."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from cross_backend.cache import Cache
from cross_backend.comparison.contestant import described
from cross_backend.comparison.launch import run_launch
from cross_backend.comparison.opening import open_again
from cross_backend.comparison.panel import RunLaunch, conclude, enough, remember, run_launches
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Site
from cross_backend.errors import CrossBackendError, PlaceError, one_line
from cross_backend.exporting.export import Exported, outcome_of
from cross_backend.generation.rows import Length
from cross_backend.instruments.table import INSTRUMENT_S, take_each, with_further
from cross_backend.machine import Machine
from cross_backend.program.captured import Captured
from cross_backend.records import LOCALIZED, Further, Launch, Outcome, Panel, PanelKey
from cross_backend.registry import Resolved, resolve
from cross_backend.study.spec import PanelSpec, StudySettings, StudySpec

MOST_RUNS = 20_000
"""Most timed calls of a target in a panel: enough for the interval of P99.9, and for nothing more."""
Export = Callable[[], tuple[Captured, Sequence[Exported]]]
"""Captures a panel's workload and lowers it to the panel's targets, or finds that done."""


@dataclass(frozen=True)
class Stored:
    """What is stored of a panel."""

    launches: tuple[Launch, ...] = ()
    further: Mapping[int, Further] = field(default_factory=dict)
    """Index of the target → what the further instruments gave."""


@dataclass(frozen=True)
class Keep:
    """Where a panel's results go, each as soon as it is whole."""

    launch: Callable[[int, Launch], None]
    """Called with the launch and its number in the panel."""
    further: Callable[[int, str, Further], None]
    """Called with the index and title of a target, and what the further instruments gave."""
    progress: Callable[[str, float], None]
    """Called with (what is being done, share of the panel that is done)."""


def measure(
    spec: PanelSpec, settings: StudySettings, stored: Stored, export: Export, cache: Cache, site: Site, keep: Keep
) -> None:
    """Measure what is missing of a panel.

    Args:
        spec: of the panel.
        settings: of its study.
        stored: what was measured of it on this kind of machine.
        export: captures and lowers.
        cache: where logs go.
        site: machine that measures.
        keep: takes every record.

    Raises:
        KeyboardInterrupt: it was stopped.
        PlaceError: the machine was lost.
        CrossBackendError: the model cannot be captured any more, or is another one than in the stored launches.
    """
    key, how = spec.key, settings_of(settings, spec.threads)
    before = list(stored.launches)
    keep.progress("capture and lower", 0.0)
    try:
        captured, rows = export()
    except CrossBackendError as error:
        if before and not enough(before, how):
            raise  # it was captured before, so this is no verdict on the model; what is stored stays
        if not before:
            keep.launch(0, _fail_all(spec.targets, key, error))
        return
    _check_same_program(key, before, captured)
    launches, interrupted = run_launches(
        captured,
        rows,
        how,
        cache,
        before,
        keep.launch,
        lambda doing, done, total: keep.progress(doing, 0.1 + 0.5 * done / total),
        site=site,
        run=_launch_of(spec),
    )
    if launches[-1].lost is not None:
        raise PlaceError(f"{launches[-1].lost}. Finished work is stored; the same command resumes.")
    if interrupted:
        raise KeyboardInterrupt
    panel = conclude(key.workload, launches, how, key.batch, site.machine)
    if key.batch == 1 and spec.part != "prefill":
        remember(captured, panel.results, how, cache, panel.machine, site.name)
    _take_instruments(spec, settings, stored, captured, rows, panel, cache, site, keep)
    if settings.localize and site is HERE:
        _localize(key, how, stored, captured, panel, cache, keep)


def _launch_of(spec: PanelSpec) -> RunLaunch:
    """Return what one launch of a panel does."""
    if spec.generate is None or spec.part is None:
        return run_launch
    from cross_backend.generation.launch import generating

    return generating(Length.parse(spec.generate), spec.part, spec.workload.source(spec.batch).context)


def settings_of(asked: StudySettings, threads: int) -> Settings:
    """Return how a study's panels are measured: what it says of a setting goes there by its name."""
    given = vars(asked)
    shared = {one.name: given[one.name] for one in fields(Settings) if one.name in given}
    return Settings(num_runs=MOST_RUNS, threads=threads, memory_limit_bytes=asked.memory_limit, **shared)


def panel_of(study: StudySpec, key: PanelKey, stored: Stored, machine: Machine) -> Panel:
    """Return what is stored of a panel of one machine's study as its results."""
    how = settings_of(study.settings, key.threads)
    panel = conclude(key.workload, stored.launches, how, key.batch, machine)
    return with_further(replace(panel, place=study.where_measured), stored.further)


def _check_same_program(key: PanelKey, before: Sequence[Launch], captured: Captured) -> None:
    """Refuse to go on with a panel whose stored launches are of another program.

    Raises:
        CrossBackendError: what is joined would be two models.
    """
    if {launch.program for launch in before} - {"", captured.digest}:
        raise CrossBackendError(
            f"{key}: the model changed since its {len(before)} stored launch(es) were measured: its code, or what that "
            "imports. Rename the study to start a new one, or restore the model to continue."
        )


def resolved(text: str) -> Resolved | None:
    """Return a target's backend and options; None where there is no such target."""
    with contextlib.suppress(CrossBackendError):
        return resolve(text)
    return None


def _fail_all(targets: Sequence[str], key: PanelKey, error: CrossBackendError) -> Launch:
    """Return the launch of a panel whose workload cannot be captured: every target says why."""
    outcome = outcome_of(error, Outcome.LOWER_FAIL)
    reason = f"the model cannot be captured: {one_line(error)}"
    rows = [Exported(text, outcome, reason, resolved(text)) for text in targets]
    return Launch(tuple(described(key.workload, row, rows[:index]) for index, row in enumerate(rows)))


def _take_instruments(
    spec: PanelSpec,
    settings: StudySettings,
    stored: Stored,
    captured: Captured,
    rows: Sequence[Exported],
    panel: Panel,
    cache: Cache,
    site: Site,
    keep: Keep,
) -> None:
    """Take the further instruments of each target that works; what one gave is kept before the next begins."""
    names, results = settings.instruments, panel.results
    if spec.generate is not None:
        names = tuple(name for name in names if name == "memory")  # the others say something of single calls
    todo = [i for i, r in enumerate(results) if r.latency_ms is not None and i not in stored.further] if names else []
    task = None if captured.metric is None else (captured.metric, captured.task_path)
    how = settings_of(settings, spec.threads)
    for step, index in enumerate(todo):
        result = results[index]
        assert result.latency_ms is not None
        keep.progress(f"further measurements of {result.title}", 0.6 + 0.4 * step / len(todo))
        wanted = [name for name in names if name != "accuracy" or not result.task]
        call_s = result.latency_ms.value / 1e3
        found = take_further(rows[index], wanted, how, cache, batch=spec.batch, task=task, call_s=call_s, site=site)
        keep.further(index, result.title, found)


def _localize(
    key: PanelKey, how: Settings, stored: Stored, captured: Captured, panel: Panel, cache: Cache, keep: Keep
) -> None:
    """Look for the operator that each target with wrong outputs computes wrongly; what was found is kept."""
    from cross_backend.localization.localize import localize

    for index, result in enumerate(panel.results):
        if result.outcome is not Outcome.MISMATCH or index in stored.further:
            continue
        keep.progress(f"{key}: localize {result.target}", 1.0)
        try:
            found = localize(captured, result.target, cache=cache, settings=how)
            kept = Further(notes={LOCALIZED: found.summary}, localized=found.to_json())
        except CrossBackendError as error:
            kept = Further(notes={LOCALIZED: f"not localised: {one_line(error)}"})
        keep.further(index, result.title, kept)


def take_further(
    row: Exported,
    names: Sequence[str],
    settings: Settings,
    cache: Cache,
    *,
    batch: int,
    task: tuple[str, Path] | None,
    call_s: float = INSTRUMENT_S,
    site: Site = HERE,
) -> Further:
    """Take further instruments of one exported target, alone; the arguments are those of ``take_each``."""
    if row.artifact is None:
        reasons = dict.fromkeys(names, row.reason or "it could not be lowered again")
        return Further(absent=reasons, failures=reasons)
    open_bench = functools.partial(open_again, row, settings, cache, site=site)
    return take_each(open_bench, names, batch=batch, task=task, call_s=call_s, seed=settings.seed)
