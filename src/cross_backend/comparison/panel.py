"""Panel: one workload on many targets, compared on one machine; the project's main job.

export ──▶ launch: open each in an isolated worker ──▶ verify ──▶ measure in interleaved rounds ──▶ conclude: rank
           └──────────────── again in fresh processes, until it is precise enough ───────────┘
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Bench, Opened
from cross_backend.cache import Cache
from cross_backend.comparison.joined import deduplicate_warnings, merged, twins
from cross_backend.comparison.launch import Look, Progress, launch_alone, run_launch, silent, unseen
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Site
from cross_backend.exporting.export import Exported, ExportSettings, Observe, export, ignore
from cross_backend.machine import Machine
from cross_backend.measure.precision import precision_reached
from cross_backend.measure.ranking import Ranking
from cross_backend.measure.statistics import latency_ms, noise_floor
from cross_backend.program.captured import Captured
from cross_backend.records import INTERRUPTED, TOO_FEW, Launch, Outcome, Panel, Result
from cross_backend.registry import Resolved, check_targets
from cross_backend.remembered import Measured, Memory
from cross_backend.workloads import Source
from cross_backend.workloads.batching import unbatched_name

RunLaunch = Callable[..., tuple[Launch, bool]]
"""Does one launch; takes what :func:`run_launch` takes."""


def compare(
    source: Source | Captured,
    targets: Sequence[str],
    settings: Settings,
    exporting: ExportSettings,
    observe: Observe = ignore,
    progress: Progress = silent,
    look: Look = unseen,
    site: Site = HERE,
) -> Panel:
    """Export, verify, measure and rank; a target that fails keeps its row and its reason.

    Raises:
        UsageError: a target that does not exist.
        CrossBackendError: the workload cannot be captured.
    """
    check_targets(targets)
    captured, rows = export(source, targets, exporting, observe)
    return run_panel(captured, rows, settings, exporting.cache, progress, look, site)


def run_panel(
    captured: Captured,
    rows: Sequence[Exported],
    settings: Settings,
    cache: Cache,
    progress: Progress = silent,
    look: Look = unseen,
    site: Site = HERE,
) -> Panel:
    """Verify, measure and rank what was exported."""
    if sum(row.artifact is not None for row in rows) == 1:
        settings = replace(settings, launches=settings.launches or 1)  # there is no place to decide
    launches, interrupted = run_launches(captured, rows, settings, cache, progress=progress, look=look, site=site)
    workload = unbatched_name(captured.workload, captured.batch)
    panel = conclude(workload, launches, settings, captured.batch, site.machine, interrupted=interrupted)
    panel = replace(panel, place=site.name, lost=launches[-1].lost)
    if not interrupted:
        remember(captured, panel.results, settings, cache, site.machine, site.name)
    return panel


def run_launches(
    captured: Captured,
    rows: Sequence[Exported],
    settings: Settings,
    cache: Cache,
    before: Sequence[Launch] = (),
    keep: Callable[[int, Launch], None] = lambda _index, _launch: None,
    progress: Progress = silent,
    look: Look = unseen,
    site: Site = HERE,
    run: RunLaunch = run_launch,
) -> tuple[list[Launch], bool]:
    """Launch until it is enough; return all launches, those of ``before`` first, and whether that was interrupted.

    Args:
        captured: the workload.
        rows: what was exported, one a target.
        settings: how to measure.
        cache: where the workers' logs go.
        before: launches of this panel that were kept earlier.
        keep: called with the index and the launch as soon as a launch is whole.
        progress: told of every step; of all that may come, with a margin.
        look: told what is known of the targets at every step.
        site: machine that measures.
        run: what one launch does.
    """
    launches, parts = list(before), _parts([row.artifact is not None for row in rows], settings)
    while not enough(launches, settings):
        index = len(launches)

        def show(doing: str, done: int, total: int, index: int = index) -> None:
            prefix = f"launch {index + 1}: " if settings.most_launches > 1 else ""
            whole = settings.most_launches * parts * total
            progress(f"{prefix}{doing}", min(index * total + done, whole), whole)

        wanted = undecided(launches, settings) if launches and settings.deciding else None
        if parts > 1:
            wanted = _part([row.artifact is not None for row in rows], launches, settings)
        launch, interrupted = run(captured, rows, settings, cache, launches, show, wanted, look, site)
        launches.append(launch)
        if interrupted:
            return launches, True
        keep(index, launch)
    return launches, False


def measure_alone(
    bench: Bench, artifact: Artifact, resolved: Resolved, settings: Settings, opened: Opened, cache: Cache
) -> Result:
    """Verify and measure one open artifact by itself, without a ranking."""
    settings = replace(settings, launches=1, margin=None)
    launch = launch_alone(bench, artifact, resolved, settings, opened, cache)
    result = conclude(artifact.workload, [launch], settings, 1, Machine.here()).results[0]
    return replace(result, rank=None, ratio=None)


def enough(launches: Sequence[Launch], settings: Settings) -> bool:
    """Whether there are as many launches as asked for, and they are as precise as asked for."""
    if not launches:
        return False
    parts = _parts([result.size_bytes is not None for result in launches[0].results], settings)
    if len(launches) < parts:
        return False
    recent = (result for launch in launches[-parts:] for result in launch.results)
    if not any(result.latency and result.outcome is Outcome.OK for result in recent):
        return True  # nothing runs: starting it again changes nothing
    if settings.deciding:
        spent_s, last_s = sum(launch.seconds for launch in launches), launches[-1].seconds
        over = (
            spent_s + last_s / 2 > settings.box_s
        )  # the end of this launch is nearer to the box's than that of another
        return over or len(launches) >= settings.most_launches or not undecided(launches, settings)
    if len(launches) < (settings.launches or 1) * parts:
        return False
    if settings.margin is None or len(launches) >= settings.most_launches * parts:
        return True
    ranking, floor = _ranked(launches, settings)
    if not ranking.order:
        return True
    leader, *others = (ranking.measured[key] for key in ranking.order)
    return precision_reached(leader, others, settings.margin, floor, len(ranking.order))


def _parts(lowered: Sequence[bool], settings: Settings) -> int:
    """Return in how many parts a launch of so many targets is taken."""
    return 1 if settings.together is None else max(1, math.ceil(sum(lowered) / settings.together))


def _part(lowered: Sequence[bool], launches: Sequence[Launch], settings: Settings) -> list[int]:
    """Return the targets of the next part of a launch: the fastest until now, and those whose turn it is."""
    parts, able = _parts(lowered, settings), [index for index, artifact in enumerate(lowered) if artifact]
    order = _ranked(launches, settings)[0].order if launches else ()
    return list(dict.fromkeys([*order[:1], *able[len(launches) % parts :: parts]]))


def undecided(launches: Sequence[Launch], settings: Settings) -> list[int]:
    """Return the targets whose places are not decided yet, fastest first."""
    return _ranked(launches, settings)[0].undecided


def _ranked(launches: Sequence[Launch], settings: Settings) -> tuple[Ranking, float | None]:
    """Rank what runs where it was asked to; return the noise floor as well."""
    pair, results = twins(launches), merged(launches)
    floor = noise_floor(*pair) if pair else None
    contest = {
        i: r.latency
        for i, r in enumerate(results)
        if r.outcome is Outcome.OK and r.latency is not None and r.unranked is None
    }
    return Ranking(contest, floor, settings.found_from), floor


def conclude(
    workload: str,
    launches: Sequence[Launch],
    settings: Settings,
    batch: int,
    machine: Machine,
    *,
    interrupted: bool = False,
) -> Panel:
    """Join the launches of a panel and rank what can be distinguished."""
    ranking, floor = _ranked(launches, settings)
    results = [replace(result, workload=workload) for result in merged(launches)]
    ranks, ratios = ranking.ranks, ranking.ratios
    for i, result in enumerate(results):
        if result.outcome is Outcome.OK and result.latency is not None:
            results[i] = replace(
                result,
                rank=ranks.get(i),
                ratio=ratios.get(i),
                unranked=result.unranked or (None if i in ranks else INTERRUPTED if interrupted else TOO_FEW),
                latency_ms=latency_ms(result.latency),
                mean_ms=math.fsum(map(math.fsum, result.latency.rounds)) / result.latency.count / 1e6,
            )
    return Panel(
        workload,
        tuple(results),
        floor,
        asdict(settings),
        machine,
        interrupted,
        batch,
        math.ceil(len(launches) / _parts([result.size_bytes is not None for result in results], settings)),
        deduplicate_warnings(text for launch in launches for text in launch.warnings),
        next((launch.proof for launch in launches if launch.proof), {}),
        ranking.found_from(twins(launches)),
    )


def remember(
    captured: Captured,
    results: Sequence[Result],
    settings: Settings,
    cache: Cache,
    machine: Machine,
    place: str = "local",
) -> None:
    """Keep what was measured together, so that fallback orders on that machine follow it."""
    found = {
        r.target: Measured(
            r.rank,
            r.latency_ms.value,
            r.latency_ms.low,
            r.latency_ms.high,
            settings.threads,
            machine.digest,
            machine.cpu,
            r.ratio if r.ratio and all(map(math.isfinite, asdict(r.ratio).values())) else None,
        )
        for r in results
        if r.rank is not None and r.latency_ms is not None
    }
    if len(found) > 1:
        Memory(cache, machine).keep_measured(captured.digest, found, place)
