"""Launch: one pass over a panel: every target in a fresh worker, verified, then visited in interleaved rounds.

Only one worker runs at a time. In every round each target is visited once, in an order shuffled by the seed; a *twin*
of one target is visited too, and how far it seems from itself is what chance does here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Bench, Opened
from cross_backend.cache import Cache
from cross_backend.comparison.agreeing import agree
from cross_backend.comparison.blocks import ROUNDS, plan_blocks
from cross_backend.comparison.contestant import Contestant, Standing, described, standing
from cross_backend.comparison.cooling import Cooling
from cross_backend.comparison.opening import (
    Aside,
    begin,
    find_where_it_runs,
    open_alone,
    open_together,
    twin_contestant,
    verify,
    warm,
)
from cross_backend.comparison.scoring import scored
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Site
from cross_backend.comparison.warm_up import WARM_UP_S
from cross_backend.errors import CrossBackendError, PlaceLostError, one_line
from cross_backend.exporting.export import Exported
from cross_backend.measure.disturbance import Snapshot, causes
from cross_backend.program.captured import Captured
from cross_backend.records import Launch, Outcome
from cross_backend.registry import Resolved

SHOWN = 3
"""Conditions that a warning names."""
WARM_CALLS = 3
WARM_BELOW_MS = 50.0
"""Faster targets get untimed calls at the start of each block: caches are cold after the others' turns."""

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""
ALONE = Aside()


Look = Callable[[Sequence[Standing]], None]
"""Called with what is known of each target until now, in their order."""


def silent(doing: str, done: int, total: int) -> None:
    """Show no progress."""


def unseen(standings: Sequence[Standing]) -> None:
    """Show nothing of the targets."""


def run_launch(
    captured: Captured,
    rows: Sequence[Exported],
    settings: Settings,
    cache: Cache,
    before: Sequence[Launch] = (),
    progress: Progress = silent,
    wanted: Sequence[int] | None = None,
    look: Look = unseen,
    site: Site = HERE,
    aside: Aside = ALONE,
) -> tuple[Launch, bool]:
    """Open, verify and measure every target that has not failed in an earlier launch.

    Args:
        captured: the workload.
        rows: what was exported, one a target.
        settings: how to measure.
        cache: where the workers' logs go.
        before: earlier launches of the same panel.
        progress: told of every step.
        wanted: indices of the targets that are started, fastest first; all where None. They are opened together,
            which is faster and disturbs what a cold start takes, so that is not measured.
        look: told what is known of the targets at every step.
        site: machine that measures.
        aside: what else is done with the targets that are new.

    Returns:
        The launch, and whether it was interrupted, or the site was lost: then it holds what was finished.
    """
    contestants = [begin(captured, row, rows[:index], index, before, settings, site) for index, row in enumerate(rows)]
    lost: str | None = None
    twin_of, twin, interrupted, steps = None, None, False, len(rows) + 1 + ROUNDS
    machine_after: Snapshot | None = None
    visited: list[Contestant] = []
    started, machine_before = time.perf_counter(), site.snapshot()
    earlier = [[launch.results[index].latency for launch in before] for index in range(len(rows))]

    step = 0

    def show(doing: str, done: int) -> None:
        nonlocal step
        step = done
        progress(doing, done, steps)
        if look is not unseen:
            look([standing(*pair) for pair in zip(contestants, earlier, strict=True)])

    cooling = Cooling(site, lambda doing: progress(doing, step, steps))

    def open_all(stack: ExitStack) -> None:
        nonlocal twin_of, twin
        if wanted is None:
            for number, contestant in enumerate(contestants):
                show(f"open and verify {contestant.result.target}", number)
                open_alone(contestant, settings, cache, stack, site, aside.admit)
            twin_of = before[0].twin_of if before else _fastest(contestants)
            if twin_of is not None and contestants[twin_of].running:
                twin = twin_contestant(contestants[twin_of])
                open_alone(twin, settings, cache, stack, site)
        elif wanted:
            show(f"open and verify {len(wanted)} targets", 0)
            twin_of, twin = wanted[0], twin_contestant(contestants[wanted[0]])
            open_together([*(contestants[index] for index in wanted), twin], settings, cache, stack, site, aside.admit)

    with ExitStack() as stack:
        try:
            cooling.begin()
            open_all(stack)
            visited = [e for e in (*contestants, twin) if e is not None and e.running]
            _measure(visited, settings, len(before), lambda turn: show(_round(turn), len(rows) + 1 + turn), cooling)
            _end_all(contestants, captured, aside, cache if site is HERE else None)
            machine_after = site.snapshot()
        except KeyboardInterrupt:
            interrupted = True
        except PlaceLostError as error:
            interrupted, lost = True, str(error)
    heat = cooling.finish(visited, skip=settings.skip_throttled)
    launch = Launch(
        tuple(e.measured(ROUNDS) for e in contestants),
        twin.measured(ROUNDS) if twin else None,
        twin_of if twin else None,
        (
            *_disturbances(machine_before, machine_after, settings, site),
            *heat,
            *_lost_twin(twin),
            *_many_in_one(captured),
            *_unreached(captured),
        ),
        time.perf_counter() - started,
        captured.digest,
        captured.proof,
        lost,
    )
    return launch, interrupted


def _disturbances(before: Snapshot | None, after: Snapshot | None, settings: Settings, site: Site) -> tuple[str, ...]:
    if before is None or after is None:
        return ()
    return causes(before, after, usable_cpus=site.machine.usable_cpus, threads=settings.threads)


def _round(turn: int) -> str:
    return f"measure, round {min(turn + 1, ROUNDS)} of {ROUNDS}"


def _end_all(contestants: Sequence[Contestant], captured: Captured, aside: Aside, cache: Cache | None) -> None:
    """Find out once how well each does its task; after the rounds, so that a failure costs it nothing else."""
    new = [contestant for contestant in contestants if contestant.is_new]
    for contestant in new:
        if captured.metric is not None and not contestant.result.task:
            _score(contestant, captured)
    if captured.metric is None and cache is not None:
        agree(new, captured, cache)
    for contestant in new:
        if contestant.running:
            aside.finish(contestant)


def _score(contestant: Contestant, captured: Captured) -> None:
    if contestant.bench is None or contestant.result.outcome is not Outcome.OK:
        return
    try:
        score = scored(contestant.bench, captured)
    except CrossBackendError as error:
        contestant.lack("accuracy", error)
        warnings = (*contestant.result.warnings, f"accuracy could not be taken: {one_line(error)}")
        contestant.result = replace(contestant.result, warnings=warnings)
    else:
        contestant.result = replace(contestant.result, task={str(captured.metric): score})


def _fastest(contestants: Sequence[Contestant]) -> int | None:
    """Return the index of the fastest, better of one that gets a rank: its twin shows what a rank is worth."""
    running = [i for i, e in enumerate(contestants) if e.running]
    return min(
        running, key=lambda i: (contestants[i].result.unranked is not None, contestants[i].estimate_ms), default=None
    )


def _lost_twin(twin: Contestant | None) -> tuple[str, ...]:
    """Return a warning of a target that is right in one process and fails in the next."""
    if twin is None or twin.result.outcome is Outcome.OK:
        return ()
    result = twin.result
    return (f"{result.title}, the same target in a second process, ended as {result.outcome}: {result.reason}",)


def _many_in_one(captured: Captured) -> tuple[str, ...]:
    """Return a warning of a batch size that the model itself may have."""
    extents = {spec.shape[0] if spec.shape else 1 for spec in captured.inputs}
    if captured.batch > 1 or len(extents) != 1 or extents <= {1} or not all(isinstance(n, int) for n in extents):
        return ()
    return (f"fixed leading extent of {extents.pop()}: a call may hold as many samples, and counts as one inference",)


def _unreached(captured: Captured) -> tuple[str, ...]:
    """Return a warning of conditions of the program that neither the sample nor a probe reached."""
    proof = captured.proof
    missed = proof.get("missed", ())
    if not missed:
        return ()
    more = f"; and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
    reached = f"proof: sample and probes reach {proof['reached']} of {proof['sides']} sides of the program's conditions"
    return (f"{reached}. Not reached: {'; '.join(missed[:SHOWN])}{more}",)


def _measure(
    visited: Sequence[Contestant],
    settings: Settings,
    index: int,
    show: Callable[[int], None],
    cooling: Cooling | None = None,
) -> None:
    order = random.Random(f"{settings.seed} {index}")  # noqa: S311  no secret: the order of turns
    plans = {id(e): plan_blocks(e.estimate_ms, settings) for e in visited}
    for turn in range(ROUNDS):
        if cooling is not None:
            cooling.pause()
        show(turn)
        for contestant in order.sample(visited, len(visited)):
            contestant.rounds.append(_block(contestant, plans[id(contestant)][turn]))
        if cooling is not None:
            cooling.note(turn)
    show(ROUNDS)


def _block(contestant: Contestant, runs: int) -> tuple[int, ...]:
    if not runs or not contestant.running or contestant.bench is None:
        return ()
    warm = WARM_CALLS if contestant.estimate_ms < WARM_BELOW_MS else 0
    # The box only guards against a target that suddenly slows down: the plan already fits it.
    box = max(1.0, 5 * runs * contestant.estimate_ms / 1000)
    try:
        samples = contestant.bench.sample(runs, warm, box)
    except CrossBackendError as error:
        contestant.fail(error, Outcome.RUN_FAIL)
        return ()
    contestant.switches += samples.involuntary_switches
    return tuple(samples.ns)


def launch_alone(
    bench: Bench, artifact: Artifact, resolved: Resolved, settings: Settings, opened: Opened, cache: Cache
) -> Launch:
    """Verify one open artifact, see where it runs, and measure it by itself where that shows something."""
    row = Exported(artifact.target, Outcome.OK, None, resolved, artifact)
    result = replace(described(artifact.workload, row), target=artifact.target, load_s=opened.load_s)
    contestant = Contestant(row, result, bench)
    verify(contestant, bench, resolved, cache)
    if contestant.result.outcome is Outcome.OK:
        find_where_it_runs(contestant, bench, settings)
    if not contestant.running:
        return Launch((contestant.result,))
    warm(contestant, WARM_UP_S)
    _measure([contestant], settings, 0, lambda _turn: None)
    return Launch((contestant.measured(ROUNDS),))
