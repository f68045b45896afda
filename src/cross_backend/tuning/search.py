"""Search: export every candidate, race them on one machine, store every launch, and put together what was found.

study ──▶ panels, one a batch size ──▶ export ──▶ too large? ──▶ race: launches, each stored ──▶ unbeaten ones, winner
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from cross_backend.cache import Cache
from cross_backend.comparison.benches import too_few_processors
from cross_backend.comparison.blocks import plan_blocks
from cross_backend.comparison.joined import merged, twins
from cross_backend.comparison.launch import run_launch
from cross_backend.comparison.opening import Aside
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import Site
from cross_backend.errors import CrossBackendError, PlaceError
from cross_backend.exporting.export import Exported, ExportSettings, Observe, export, ignore
from cross_backend.measure.paired import MIN_ROUNDS
from cross_backend.measure.statistics import latency_ms, noise_floor
from cross_backend.measurement import Measurement
from cross_backend.program.captured import Captured
from cross_backend.records import INTERRUPTED, PEAK, Launch, Outcome, PanelKey, Result, peak_of
from cross_backend.registry import Role, rows
from cross_backend.report import tables
from cross_backend.store import Store
from cross_backend.study.estimate import Seconds
from cross_backend.study.kinds import versions_of
from cross_backend.study.spec import PanelSpec, StudySpec
from cross_backend.tuning.bounds import Bounds, Miss
from cross_backend.tuning.halving import Key, Rungs, Standings, race
from cross_backend.tuning.judge import Judge
from cross_backend.tuning.space import computes_fp32
from cross_backend.tuning.tuned import Tried, Tuned, nearest, unbeaten
from cross_backend.workloads import Source
from cross_backend.workloads.batching import unbatched_name


@dataclass(frozen=True)
class Asked:
    """What is searched."""

    study: StudySpec
    """Of one model on one machine: targets and batch sizes are the candidates."""
    source: Callable[[int], Source]
    """Returns the model at a batch size of the study."""
    command: Callable[[Tried], str]
    """Returns the command line that exports a candidate."""
    bounds: Bounds = field(default_factory=Bounds)
    rungs: Rungs = field(default_factory=Rungs)
    num_runs: int = 1000
    """Most timed calls of a finalist, all launches together."""


@dataclass(frozen=True)
class Told:
    """What is told while it searches."""

    progress: Callable[[str, float, str], None] = lambda _doing, _share, _left: None
    """Called with (what is being done, share that is done, the time left in words)."""
    observe: Observe = ignore
    stored: Callable[[str], None] = lambda _what: None
    """Called with what is on the disk now."""


@dataclass
class _Field:
    """The candidates of one batch size, and what was measured of them."""

    spec: PanelSpec
    captured: Captured
    rows: list[Exported]
    stored: list[Launch] = field(default_factory=list)
    """Of an earlier run of the same search, which are taken before anything is measured."""
    launches: list[Launch] = field(default_factory=list)

    @property
    def key(self) -> PanelKey:
        """Under which it is stored."""
        return self.spec.key

    @property
    def title(self) -> str:
        """What progress calls it; threads are the candidates' own."""
        return f"{self.key.workload}, batch {self.key.batch}"


def tune(asked: Asked, store: Store, cache: Cache, site: Site, told: Told | None = None) -> Tuned:
    """Search, or go on with the unfinished search of the same content on the same machine.

    Raises:
        KeyboardInterrupt: it was stopped; what was finished is stored, and the same call goes on.
        PlaceError: the machine was lost; likewise.
        CrossBackendError: the model cannot be captured, its accuracy cannot be judged, or the store cannot be used.
    """
    told = told or Told()
    settings = Settings(threads=1, timeout_s=asked.study.settings.timeout_s, seed=asked.study.settings.seed)
    exporting = ExportSettings(cache, asked.study.settings.jobs, asked.study.settings.timeout_s)
    told.progress("capture and lower", 0.0, "")
    fields = [_exported(asked, spec, exporting, told.observe) for spec in asked.study.panels()]
    told.progress("see how float32 does", 0.0, "")
    reference = _reference(fields[0], exporting, told.observe)
    judge = Judge.of(fields[0].captured, reference, asked.bounds.max_drop, settings, cache)
    specs = [one.spec for one in fields]
    row = store.begin(
        asked.study.name, asked.study.to_json(), _digest(asked, fields), site.machine, versions_of(specs[0].targets)
    )
    for one in fields:
        one.stored = store.launches(row.id, one.key)
    search = _Search(asked, fields, judge, store, row.id, cache, site, settings, told)
    search.run()
    for one in fields:
        store.finish_panel(row.id, one.key, {"fastest": search.fastest(one)})
    store.finish(row.id)
    return search.found()


def _exported(asked: Asked, spec: PanelSpec, exporting: ExportSettings, observe: Observe) -> _Field:
    captured, rows = export(asked.source(spec.batch), spec.targets, exporting, observe)
    most = asked.bounds.max_size

    def judged(row: Exported) -> Exported:
        if row.artifact is None or most is None or row.artifact.size_bytes <= most:
            return row
        over = f"{tables.size(row.artifact.size_bytes)}, at most {tables.size(most)} is allowed"
        return replace(row, outcome=Outcome.NOT_MEASURED, reason=over)

    return _Field(spec, captured, [judged(row) for row in rows])


def _reference(one: _Field, exporting: ExportSettings, observe: Observe) -> list[Exported]:
    """Return the float32 targets of the search; where there is none, the baseline."""
    found = [row for row in one.rows if row.artifact is not None and computes_fp32(row.text)]
    if found:
        return found
    baselines = [name for name, row in rows().items() if row.role is Role.BASELINE]
    return [row for row in export(one.captured, baselines, exporting, observe)[1] if row.artifact is not None]


def _digest(asked: Asked, fields: Sequence[_Field]) -> str:
    """Return what distinguishes an unfinished search from every other."""
    parts = [asked.study.digest, asdict(asked.bounds), asdict(asked.rungs), asked.num_runs]
    text = json.dumps([*parts, *(one.captured.digest for one in fields)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class _Search:
    asked: Asked
    fields: list[_Field]
    judge: Judge
    store: Store
    study_id: int
    cache: Cache
    site: Site
    settings: Settings
    told: Told
    _seconds: list[float] = field(default_factory=list)
    """Of each start that was measured now."""
    _started: int = 0

    def run(self) -> None:
        """Race all candidates that can run there."""
        can_run = {at: self._can_run(one) for at, one in enumerate(self.fields)}
        for at, indices in can_run.items():
            if not indices:
                self._launch([], at, 0)  # the reasons are kept
        race([(at, index) for at in can_run for index in can_run[at]], self._measure, self.standings, self.asked.rungs)

    def _can_run(self, one: _Field) -> list[int]:
        return [
            index
            for index, row in enumerate(one.rows)
            if row.outcome is Outcome.OK and row.resolved is not None
            if self.site.missing(row.resolved) is None
            if too_few_processors(row.resolved, self.settings.threads, self.site.machine) is None
        ]

    def _measure(self, keys: Sequence[Key], rung: int) -> None:
        self._launch([index for _, index in keys], keys[0][0], rung)

    def _launch(self, wanted: Sequence[int], at: int, rung: int) -> None:
        """Take the stored launch, or measure and store one."""
        one = self.fields[at]
        number = len(one.launches)
        self._started += len(wanted)
        if number < len(one.stored):
            one.launches.append(_checked(one.stored[number], wanted, one.key))
            return
        begun = time.monotonic()
        aside = Aside(self.judge.admit(one.captured), self.judge.finish)

        def show(doing: str, done: int, total: int) -> None:
            share, left = self._left(len(wanted), done / total, time.monotonic() - begun)
            self.told.progress(f"{one.title}: rung {rung + 1}, {_counted(wanted)}: {doing}", share, left)

        launch, interrupted = run_launch(
            one.captured,
            one.rows,
            self._settings(rung),
            self.cache,
            one.launches,
            show,
            wanted,
            site=self.site,
            aside=aside,
        )
        if launch.lost is not None:
            raise PlaceError(f"{launch.lost}. Finished work is stored; the same command resumes.")
        if interrupted:
            raise KeyboardInterrupt
        self.store.keep_launch(self.study_id, one.key, number, launch)
        one.launches.append(launch)
        self._seconds += [(time.monotonic() - begun) / max(len(wanted), 1)] * len(wanted)
        self.told.stored(f"{one.title}: launch {number + 1}, {_counted(wanted)}")

    def _settings(self, rung: int) -> Settings:
        rungs, share = self.asked.rungs, self.asked.rungs.share(rung)
        runs = max(MIN_ROUNDS, math.ceil(self.asked.num_runs / rungs.launches * share))
        seconds = self.asked.study.settings.seconds / rungs.launches * share
        return replace(self.settings, num_runs=runs, seconds=seconds, launches=1)

    def _left(self, starting: int, share: float, elapsed_s: float) -> tuple[float, str]:
        """Return the share that is done, and the time that is left in words."""
        all_starts = sum(len(one.rows) for one in self.fields)
        most, raced = 0, all_starts
        for _ in range(self.asked.rungs.launches):
            most += raced
            raced = min(raced, self.asked.rungs.kept(raced))
        done = self._started - starting * (1 - share)
        per = (sum(self._seconds) + elapsed_s) / max(len(self._seconds) + starting * share, 1e-3)
        low, high = max(all_starts - done, starting * (1 - share)), max(most - done, starting * (1 - share))
        known = self._seconds or share > 0.5
        return min(done / max(most, 1), 0.999), str(Seconds(low * per, high * per)) if known else ""

    def results(self, one: _Field) -> list[Result]:
        """Return what is known of the candidates of a batch size."""
        return merged(one.launches) if one.launches else []

    def standings(self) -> Standings:
        """Return the candidates that were measured and may still win, in order."""
        measured: dict[Key, Measurement] = {}
        floors: dict[int, float] = {}
        for at, one in enumerate(self.fields):
            pair = twins(one.launches)
            floors[at] = (noise_floor(*pair) or 0.0) if pair else 0.0
            for index, result in enumerate(self.results(one)):
                if result.outcome is Outcome.OK and result.latency is not None and result.unranked is None:
                    late = (
                        self.asked.bounds.max_ms is not None
                        and latency_ms(result.latency).low > self.asked.bounds.max_ms
                    )
                    if not late and all(miss.bound == "--max-ms" for miss in self._misses(result)):
                        measured[at, index] = _per_item(result.latency, one.captured.batch)
        return Standings(measured, floors)

    def _misses(self, result: Result) -> tuple[Miss, ...]:
        """Return the bounds that a candidate is known not to meet."""
        bounds, found = self.asked.bounds, list[Miss]()
        if bounds.max_size is not None and result.size_bytes is not None and result.size_bytes > bounds.max_size:
            found.append(Miss("--max-size", result.size_bytes, bounds.max_size))
        if result.comparison is not None:
            drop = self.judge.drop_of(result)
            if drop is None or drop > bounds.max_drop:
                why = result.absent.get(self.judge.loss.name, "the outputs tell none")
                found.append(Miss("--max-drop", drop, bounds.max_drop, why))
        if result.latency is not None:
            ms, memory = latency_ms(result.latency).value, peak_of(result)
            if bounds.max_ms is not None and ms > bounds.max_ms:
                found.append(Miss("--max-ms", ms, bounds.max_ms))
            if bounds.max_memory is not None and (memory is None or memory > bounds.max_memory):
                why = result.absent.get(PEAK, "it was not read")
                found.append(Miss("--max-memory", memory, bounds.max_memory, why))
        return tuple(found)

    def fastest(self, one: _Field) -> list[str]:
        """Return the title of the fastest of a batch size, for lists of studies."""
        at = self.fields.index(one)
        results = self.results(one)
        return [results[index].title for panel, index in self.standings().order if panel == at][:1]

    def found(self) -> Tuned:
        """Put together what was found."""
        standings = self.standings()
        keys = [(at, index) for at, one in enumerate(self.fields) for index in range(len(self.results(one)))]
        tried = {key: self._tried(key) for key in keys}
        best = next((key for key in standings.order if tried[key].fits), None)
        if best is not None:
            rivals = [key for key in standings.order if key != best and tried[key].fits]
            for key in (best, *rivals):
                ratio = standings.ratio(key, best, len(rivals))
                tied = key != best and ratio is not None and ratio.low <= 1 <= ratio.high
                tried[key] = replace(tried[key], ratio=ratio, tied=tied)
        rows = [tried[key] for key in keys]

        def is_slower(first: int, second: int) -> bool:
            ratio = standings.ratio(keys[first], keys[second])
            return ratio is not None and ratio.low > 1

        kept = unbeaten(rows, is_slower) | ({keys.index(best)} if best is not None else set())
        rows = [replace(row, unbeaten=index in kept) for index, row in enumerate(rows)]
        winner = rows[keys.index(best)] if best is not None else None
        timed = [result.latency.median / 1e6 for one in self.fields for result in self.results(one) if result.latency]
        captured = self.fields[0].captured
        return Tuned(
            unbatched_name(captured.workload, captured.batch),
            self.site.name,
            self.site.machine,
            self.asked.bounds,
            self.judge.loss,
            tuple(rows),
            winner,
            nearest(rows) if winner is None else None,
            self.asked.command(winner) if winner else None,
            self.study_id,
            len(timed) * self.asked.rungs.launches,
            sum(sum(plan_blocks(ms, self._settings(self.asked.rungs.launches))) for ms in timed)
            * self.asked.rungs.launches,
        )

    def _tried(self, key: Key) -> Tried:
        one = self.fields[key[0]]
        result = self.results(one)[key[1]]
        timed = [launch.results[key[1]].latency for launch in one.launches]
        reason = result.unranked if result.outcome is Outcome.OK else result.reason
        return Tried(
            result.target,
            result.title,
            one.captured.batch,
            result.outcome,
            None if reason == INTERRUPTED else reason,
            latency_ms(result.latency) if result.latency is not None else None,
            None,
            self.judge.accuracy_of(result),
            self.judge.drop_of(result),
            result.size_bytes,
            peak_of(result),
            sum(latency is not None for latency in timed),
            result.latency.count if result.latency is not None else 0,
            self._misses(result),
        )


def _checked(launch: Launch, wanted: Sequence[int], key: PanelKey) -> Launch:
    """Return a stored launch, if it started what this search starts now.

    Raises:
        CrossBackendError: it did not.
    """
    if len(launch.results) <= max(wanted, default=-1) or any(
        launch.results[index].comparison is None and launch.results[index].outcome is Outcome.OK for index in wanted
    ):
        raise CrossBackendError(f"{key}: the stored search differs from this one; add --seed N to begin a new one.")
    return launch


def _counted(wanted: Sequence[int]) -> str:
    return f"{len(wanted)} candidate{'' if len(wanted) == 1 else 's'}"


def _per_item(latency: Measurement, batch: int) -> Measurement:
    if batch == 1:
        return latency
    return replace(latency, rounds=tuple(tuple(value / batch for value in calls) for calls in latency.rounds))
