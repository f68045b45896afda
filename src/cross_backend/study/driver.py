"""Driver of a study: panel after panel, launch after launch; everything finished is stored before the next begins.

study ──▶ panels ──▶ export ──▶ launches (each stored) ──▶ instruments (stored) ──▶ the panel is finished
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cache import Cache
from cross_backend.comparison.entrant import described
from cross_backend.comparison.opening import open_again
from cross_backend.comparison.panel import conclude, enough, remember, run_launches
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE as SITE_HERE
from cross_backend.comparison.site import Site
from cross_backend.errors import CrossBackendError, PlaceError, one_line
from cross_backend.export.export import Exported, ExportSettings, Observe, export, ignore, outcome_of
from cross_backend.instruments.table import INSTRUMENT_S, take_each, with_further
from cross_backend.machine import version_of
from cross_backend.places.address import parse
from cross_backend.program.capture import Captured
from cross_backend.records import Further, Launch, Outcome, Panel, PanelKey, StudyResults
from cross_backend.registry import resolve
from cross_backend.store.database import explained
from cross_backend.study.spec import PanelSpec, Study
from cross_backend.toolchains import EVERY

if TYPE_CHECKING:
    from cross_backend.store import Store, StoredStudy

MOST_RUNS = 20_000
"""Most timed calls of a target in a panel: enough for the interval of P99.9, and for nothing more."""


@dataclass(frozen=True)
class Watch:
    """What is told while a study runs."""

    begin: Callable[[Sequence[int]], None] = lambda _indices: None
    """Called with the indices of the panels that are left to do."""
    progress: Callable[[str, float], None] = lambda _doing, _share: None
    """Called with (what is being done, share of the panel that is done)."""
    observe: Observe = ignore
    stored: Callable[[PanelKey, str], None] = lambda _key, _what: None
    """Called with what is on the disk now and survives everything: ``launch 2``, the measurements of a target."""
    panel: Callable[[Panel], None] = lambda _panel: None
    """Called with every panel that was finished."""


def run(study: Study, store: Store, cache: Cache, watch: Watch | None = None, site: Site = SITE_HERE) -> StudyResults:
    """Run a study, or go on with the unfinished one of the same content on the same machine.

    Args:
        study: of one machine.
        store: where it is kept.
        cache: where artifacts and logs go.
        watch: told of every step.
        site: that machine.

    Raises:
        KeyboardInterrupt: it was stopped; what was finished is stored, and the same call goes on.
        PlaceError: the machine was lost; likewise.
        CrossBackendError: the store cannot be used.
    """
    watch = watch or Watch()
    specs = study.panels()
    row = store.begin(study.name, study.to_json(), study.digest, site.machine, versions(specs))
    done = store.finished_panels(row.id)
    left = [index for index, spec in enumerate(specs) if spec.key not in done]
    watch.begin(left)
    for index in left:
        watch.panel(_run_panel(_Panel(study, row.id, specs[index], store, cache, watch, site)))
    store.finish(row.id)
    return read(store, row.id)


@dataclass(frozen=True)
class _Panel:
    """A panel on its way, and where things are."""

    study: Study
    study_id: int
    spec: PanelSpec
    store: Store
    cache: Cache
    watch: Watch
    site: Site

    @property
    def key(self) -> PanelKey:
        return self.spec.key

    @property
    def settings(self) -> Settings:
        return settings_of(self.study, self.spec.threads)

    def keep(self, index: int, launch: Launch) -> None:
        """Store a launch."""
        self.store.keep_launch(self.study_id, self.key, index, launch)
        self.watch.stored(self.key, f"launch {index + 1}")

    def finish(self, launches: Sequence[Launch]) -> Panel:
        """Write down that all is there, with the fastest for lists of studies, and return it."""
        panel = conclude(self.key.workload, launches, self.settings, self.key.batch, self.site.machine)
        panel = replace(panel, place=self.site.name)
        fastest = [result.title for result in panel.ranked if result.rank == 1]
        self.store.finish_panel(self.study_id, self.key, {"fastest": fastest})
        return with_further(panel, self.store.instruments(self.study_id, self.key))


def _run_panel(one: _Panel) -> Panel:
    key, spec, watch = one.key, one.spec, one.watch
    asked = one.study.settings
    exporting = ExportSettings(one.cache, asked.jobs, asked.timeout_s, min_coverage=asked.min_coverage)
    before = one.store.launches(one.study_id, key)
    watch.progress(f"{key}: capture and lower", 0.0)
    try:
        source = spec.workload.source(spec.batch)
        captured, rows = export(source, spec.targets, exporting, watch.observe)
    except CrossBackendError as error:
        if before and not enough(before, one.settings):
            raise  # it was captured before, so this is no verdict on the model; what is stored stays
        if not before:
            before.append(_fail_all(spec.targets, key, error))
            one.keep(0, before[0])
        return one.finish(before)
    _check_same_program(key, before, captured)
    launches, interrupted = run_launches(
        captured,
        rows,
        one.settings,
        one.cache,
        before,
        one.keep,
        lambda doing, done, total: watch.progress(f"{key}: {doing}", 0.1 + 0.5 * done / total),
        site=one.site,
    )
    if launches[-1].lost is not None:
        raise PlaceError(f"{launches[-1].lost}. What was finished is stored, and the same command goes on from there.")
    if interrupted:
        raise KeyboardInterrupt
    panel = conclude(key.workload, launches, one.settings, key.batch, one.site.machine)
    if key.batch == 1:
        remember(captured, panel.results, one.settings, one.cache, panel.machine, one.site.name)
    _take_instruments(one, captured, rows, panel)
    return one.finish(launches)


def _check_same_program(key: PanelKey, before: Sequence[Launch], captured: Captured) -> None:
    """Refuse to go on with a panel whose stored launches are of another program.

    Raises:
        CrossBackendError: what is joined would be two models.
    """
    if {launch.program for launch in before} - {"", captured.digest}:
        raise CrossBackendError(
            f"{key}: the model is another one than when its {len(before)} stored launch(es) were measured (its code, "
            "or what that imports, changed); give the study another name to begin anew, or put the model back to go on."
        )


def _fail_all(targets: Sequence[str], key: PanelKey, error: CrossBackendError) -> Launch:
    """Return the launch of a panel whose workload cannot be captured: every target says why."""
    outcome = outcome_of(error, Outcome.LOWER_FAIL)
    reason = f"the model cannot be captured: {one_line(error)}"
    rows = []
    for text in targets:
        resolved = None
        with contextlib.suppress(CrossBackendError):
            resolved = resolve(text)
        rows.append(Exported(text, outcome, reason, resolved))
    return Launch(tuple(described(key.workload, row, rows[:index]) for index, row in enumerate(rows)))


def _take_instruments(one: _Panel, captured: Captured, rows: Sequence[Exported], panel: Panel) -> None:
    """Take the further instruments of each target that works; what one gave is stored before the next begins."""
    names = one.study.settings.instruments
    done = one.store.instruments(one.study_id, one.key)
    todo = [i for i, r in enumerate(panel.results) if r.latency_ms is not None and i not in done] if names else []
    task = None if captured.metric is None else (captured.metric, captured.task_path)
    for step, index in enumerate(todo):
        result, batch = panel.results[index], one.key.batch
        assert result.latency_ms is not None
        one.watch.progress(f"{one.key}: further measurements of {result.title}", 0.6 + 0.4 * step / len(todo))
        wanted = [name for name in names if name != "accuracy" or not result.task]
        call_s = result.latency_ms.value / 1e3
        found = take_further(
            rows[index], wanted, one.settings, one.cache, batch=batch, task=task, call_s=call_s, site=one.site
        )
        one.store.keep_instruments(one.study_id, one.key, index, found)
        one.watch.stored(one.key, f"further measurements of {result.title}")


def take_further(
    row: Exported,
    names: Sequence[str],
    settings: Settings,
    cache: Cache,
    *,
    batch: int,
    task: tuple[str, Path] | None,
    call_s: float = INSTRUMENT_S,
    site: Site = SITE_HERE,
) -> Further:
    """Take further instruments of one exported target, alone; the arguments are those of ``take_each``."""
    if row.artifact is None:
        reasons = dict.fromkeys(names, row.reason or "it could not be lowered again")
        return Further(absent=reasons, failures=reasons)
    open_bench = functools.partial(open_again, row, settings, cache, site=site)
    return take_each(open_bench, names, batch=batch, task=task, call_s=call_s, seed=settings.seed)


def settings_of(study: Study, threads: int) -> Settings:
    """Return how the panels of a study are measured: what it says of a setting goes there by its name."""
    asked = vars(study.settings)
    shared = {one.name: asked[one.name] for one in fields(Settings) if one.name in asked}
    return Settings(num_runs=MOST_RUNS, threads=threads, memory_limit_bytes=study.settings.memory_limit, **shared)


def versions(specs: Sequence[PanelSpec]) -> dict[str, str]:
    """Return the installed version of every distribution that a study's targets name, those of toolchains included."""
    names = {"cross-backend", "numpy"}
    elsewhere: dict[str, str] = {}
    for text in dict.fromkeys(text for spec in specs for text in spec.targets):
        with contextlib.suppress(CrossBackendError):
            backend = resolve(text).backend
            names |= set(backend.distributions)
            for toolchain in {backend.toolchain, backend.run_toolchain, backend.runtime_files} - {None}:
                if (chosen := EVERY[str(toolchain)]).added:
                    elsewhere |= {f"{name} ({toolchain})": version for name, version in chosen.pins}
    found = {name: version_of(name) for name in sorted(names)}
    return {name: version for name, version in found.items() if version is not None} | dict(sorted(elsewhere.items()))


def read(store: Store, study_id: int) -> StudyResults:
    """Put together what is stored of a study.

    Raises:
        StoreError: it cannot be read, or is not what this program stores: the database may be anybody's.
    """
    row = store.study(study_id)
    with explained(store.place, "use"):
        return _read(store, study_id, row)


def _read(store: Store, study_id: int, row: StoredStudy) -> StudyResults:
    study = Study.from_json(row.spec)
    panels = []
    for spec in study.panels():
        key = spec.key
        launches = store.launches(study_id, key)
        if launches:
            panel = conclude(key.workload, launches, settings_of(study, key.threads), key.batch, row.machine)
            panel = replace(panel, place=str(parse(study.places[0])))
            panels.append(with_further(panel, store.instruments(study_id, key)))
    settings = asdict(study.settings)
    return StudyResults(
        row.name, tuple(panels), row.machine, row.versions, settings, row.started, row.finished is not None
    )


def joined(found: Sequence[StudyResults]) -> StudyResults:
    """Return the results of one study on several machines as one; panels say where they were measured."""
    first = found[0]
    panels = tuple(panel for results in found for panel in results.panels)
    return replace(first, panels=panels, finished=all(results.finished for results in found))
