"""Opening: a target is opened in a worker of its own, verified, looked at and warmed up; alone, or several together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from cross_backend.bench.bench import Bench, Subject, Verified
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench, open_on, too_few_processors, wrong_on_kept
from cross_backend.comparison.contestant import Contestant, described, unranked
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Site
from cross_backend.comparison.warm_up import WARM_AGAIN_S, WARM_UP_S, warm_up
from cross_backend.errors import CrossBackendError, WorkerError
from cross_backend.exporting.export import Exported
from cross_backend.instruments import cold_start
from cross_backend.program.captured import Captured
from cross_backend.records import Launch, Outcome
from cross_backend.registry import Resolved
from cross_backend.verify.compare import precision_of

SAMPLE_HEAD = 4
"""Outputs of at most this many elements are shown beside the ranking."""


def begin(
    captured: Captured,
    row: Exported,
    earlier: Sequence[Exported],
    index: int,
    before: Sequence[Launch],
    settings: Settings,
    site: Site = HERE,
) -> Contestant:
    """Begin with what is known without opening it; what failed before is not tried again."""
    result = described(captured.workload, row, earlier)
    failed = next((launch.results[index] for launch in before if launch.results[index].outcome is not Outcome.OK), None)
    if failed is not None:
        return Contestant(row, replace(failed, measurements=(), latency=None, absent={}))
    opened = next((one for launch in before if (one := launch.results[index]).comparison is not None), None)
    if opened is not None:
        result = replace(result, execution=opened.execution)
    if row.artifact is not None and opened is None:
        result = replace(result, warnings=(*result.warnings, *row.artifact.ranges))
    if row.resolved and row.artifact:
        why = site.missing(row.resolved) or too_few_processors(row.resolved, settings.threads, site.machine)
        if why is not None:
            result = replace(result, outcome=Outcome.UNAVAILABLE, reason=why)
        elif difference := site.version_difference(row.resolved, row.artifact.versions):
            result = replace(result, warnings=(*result.warnings, difference))
    return Contestant(row, result, is_new=opened is None)


def _nothing(_contestant: Contestant) -> None:
    """Do nothing more."""


@dataclass(frozen=True)
class Aside:
    """What else is done with the targets of a launch."""

    admit: Callable[[Contestant], None] = _nothing
    """Called with a new one that is open and verified, before it is warmed up; where it closes the bench, the target is
    not measured."""
    finish: Callable[[Contestant], None] = _nothing
    """Called with a new one that was measured, after the rounds."""


def open_alone(
    contestant: Contestant,
    settings: Settings,
    cache: Cache,
    stack: ExitStack,
    site: Site = HERE,
    admit: Callable[[Contestant], None] = _nothing,
) -> None:
    """Open and verify; see where it runs, if it is new; and warm it up. What fails keeps its reason."""
    start(contestant, settings, cache, stack, site)
    prove(contestant, settings, cache)
    _prepare(contestant, settings, WARM_UP_S, admit)


def open_together(
    contestants: Sequence[Contestant],
    settings: Settings,
    cache: Cache,
    stack: ExitStack,
    site: Site = HERE,
    admit: Callable[[Contestant], None] = _nothing,
) -> None:
    """Open and verify as many at a time as there are processors, then warm up one after the other.

    Importing a runtime takes seconds. Nothing is timed meanwhile, and nothing is told of the cold start.
    """
    for contestant in contestants:
        start(contestant, settings, cache, stack, site)
    copies = [replace(contestant) for contestant in contestants]  # an interrupt leaves the contestants as they are
    pool = ThreadPoolExecutor(site.machine.usable_cpus)
    try:
        list(pool.map(lambda one: prove(one, settings, cache), copies))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # whoever waits for a worker ends with it, when the stack does
    for contestant, copy in zip(contestants, copies, strict=True):
        contestant.result = replace(copy.result, load_s=None, measurements=())
        _prepare(contestant, settings, WARM_UP_S if contestant.is_new else WARM_AGAIN_S, admit)


def twin_contestant(contestant: Contestant) -> Contestant:
    """Return the same target once more; where it cannot be opened, the noise floor is not measured."""
    return Contestant(
        contestant.exported, replace(contestant.result, title=f"{contestant.result.title} twin"), is_new=False
    )


def start(contestant: Contestant, settings: Settings, cache: Cache, stack: ExitStack, site: Site = HERE) -> None:
    """Start the bench of a target that has something to run and has not failed before."""
    row = contestant.exported
    if row.artifact is None or row.resolved is None or contestant.result.outcome is not Outcome.OK:
        return
    try:
        contestant.bench = site.start_bench(str(row.resolved.target), settings, cache, stack)
    except CrossBackendError as error:
        contestant.fail(error, Outcome.LOAD_FAIL)


def prove(contestant: Contestant, settings: Settings, cache: Cache) -> None:
    """Open an artifact on the bench that was started for it, and compare its outputs with the reference."""
    row = contestant.exported
    if contestant.bench is None or row.artifact is None or row.resolved is None:
        return
    try:
        row.artifact.check()
        opened = open_on(contestant.bench, row.artifact.payload_path, str(row.resolved.target), settings)
        contestant.result = replace(contestant.result, load_s=opened.load_s)
    except CrossBackendError as error:
        contestant.fail(error, Outcome.LOAD_FAIL)
        return
    try:
        verified = verify(contestant, contestant.bench, row.resolved, cache)
        contestant.result = replace(contestant.result, measurements=cold_start.anatomy(opened, verified))
        if contestant.result.outcome is not Outcome.OK:
            contestant.bench.close()
    except CrossBackendError as error:
        contestant.fail(error, Outcome.RUN_FAIL)


def verify(contestant: Contestant, bench: Bench, resolved: Resolved, cache: Cache) -> Verified:
    """Compare its outputs with the reference; where they are wrong or prove nothing, that is how it ends."""
    precision = precision_of(resolved.options)
    verified = bench.verify(precision)
    comparison = verified.comparison
    artifact = contestant.exported.artifact
    if (
        artifact is not None
        and comparison.verdict
        and (reason := wrong_on_kept(bench, artifact.program, precision, cache))
    ):
        comparison = replace(comparison, verdict=False, reason=reason)
    told = (f"proof: not judged on {'; '.join(comparison.unjudged)}",) if comparison.unjudged else ()
    contestant.result = replace(
        contestant.result,
        warnings=(*contestant.result.warnings, *told),
        outcome=comparison.outcome,
        reason=comparison.why,
        comparison=comparison,
        sample_output=verified.head if len(verified.head) <= SAMPLE_HEAD else (),
    )
    return verified


def _prepare(contestant: Contestant, settings: Settings, most_s: float, admit: Callable[[Contestant], None]) -> None:
    if contestant.bench is None or contestant.result.outcome is not Outcome.OK:
        return
    try:
        if contestant.is_new:
            find_where_it_runs(contestant, contestant.bench, settings)
            admit(contestant)
        if contestant.running:
            warm(contestant, most_s)
    except CrossBackendError as error:
        contestant.fail(error, Outcome.RUN_FAIL)


def find_where_it_runs(contestant: Contestant, bench: Bench, settings: Settings) -> None:
    """Find out once where it really runs."""
    artifact, resolved = contestant.exported.artifact, contestant.exported.resolved
    assert artifact is not None and resolved is not None
    where = bench.execution(Subject(artifact.payload_path, str(resolved.target), settings.threads))
    asked = resolved.options.get("precision")
    if where is not None and where.precision and asked and where.precision != asked:
        told = f"{asked} was asked for; the runtime says that it computes in {where.precision}"
        contestant.result = replace(contestant.result, warnings=(*contestant.result.warnings, told))
    contestant.result = replace(contestant.result, execution=where, unranked=unranked(where, settings.min_on_device))


def warm(contestant: Contestant, most_s: float) -> None:
    """Call until it is steady, and learn how long a call takes; the first launch reports where it never was."""
    assert contestant.bench is not None
    contestant.estimate_ms, warning = warm_up(contestant.bench, most_s)
    if warning is not None and most_s == WARM_UP_S:
        contestant.result = replace(contestant.result, warnings=(*contestant.result.warnings, warning))


def open_again(row: Exported, settings: Settings, cache: Cache, stack: ExitStack, site: Site = HERE) -> Bench:
    """Open and verify a target on a fresh bench, which the stack closes.

    Raises:
        CrossBackendError: it cannot be opened.
        WorkerError: the process ends, or returns wrong outputs now.
    """
    assert row.artifact is not None and row.resolved is not None
    bench, _ = open_bench(row.artifact.payload_path, str(row.resolved.target), settings, cache, stack, site)
    comparison = bench.verify(precision_of(row.resolved.options)).comparison
    if not comparison.verdict:
        raise WorkerError(f"wrong outputs in another process: {comparison.reason}")
    return bench
