"""What the run of an artifact and of a bundled program share: what stops it, its outputs, its profile, its report."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.cli import print_json
from cross_backend.errors import CrossBackendError, RunError, UnprovedError, UnsupportedError

if TYPE_CHECKING:
    from cross_backend.artifact import Artifact
    from cross_backend.bench.bench import Bench
    from cross_backend.cache import Cache
    from cross_backend.comparison.settings import Settings
    from cross_backend.comparison.site import Site
    from cross_backend.records import Result, Timing
    from cross_backend.report.terminal import Terminal

Profile = tuple[Sequence["Timing"], int]
"""What the runtime's profiler said, and of how many runs."""
PROFILED_RUNS = 20
"""Most runs of a profile; fewer where they would not fit into ``--seconds``."""


@dataclass(frozen=True)
class Work:
    """One run of the command: what was asked for, and where it is done."""

    args: argparse.Namespace
    settings: Settings
    cache: Cache
    terminal: Terminal
    site: Site


def run_once(bench: Bench, path: Path | None) -> tuple[float, ...]:
    """Run on what is bound, write all outputs where a path is given, and return the first few values."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs.npz"
        head = bench.run(None if path is None else outputs)
        if path is not None:
            shutil.copyfile(outputs, path)
    return head


def finish(work: Work, artifact: Artifact, result: Result, cases: int | None = None) -> CrossBackendError | None:
    """Profile where that was asked for, print, and return what went wrong.

    ``cases`` is the number of verified test cases of a bundled program. The worker that measured is gone.
    """
    from cross_backend.records import Outcome

    args = work.args
    profile: Profile | None = None
    error: CrossBackendError | None = None
    if result.outcome is not Outcome.OK:
        kind = UnprovedError if result.outcome is Outcome.NOT_PROVED else RunError
        error = kind(f"{result.workload} on {result.target}: {result.outcome}: {result.reason}")
    elif args.profile:
        try:
            profile = _profile(work, artifact, result)
        except CrossBackendError as caught:
            error = caught
    if args.json:
        print_json(_document(work, result, profile, cases))
    elif result.outcome is Outcome.OK:
        _print(args, result, profile, cases, work.terminal)
    return error


def _profile(work: Work, artifact: Artifact, result: Result) -> Profile:
    from cross_backend.bench.bench import Subject

    settings = work.settings
    if result.latency_ms is None:
        raise UnsupportedError(f"there is nothing to profile: {result.unranked or 'it was not measured'}.")
    affordable = int(settings.seconds * 1000 / max(result.latency_ms.value, 1e-6))
    runs = max(1, min(settings.num_runs, PROFILED_RUNS, affordable))
    with ExitStack() as stack:
        bench = work.site.start_bench(artifact.target, settings, work.cache, stack)
        return bench.profile(Subject(artifact.payload_path, artifact.target, settings.threads), runs), runs


def _document(work: Work, result: Result, profile: Profile | None, cases: int | None) -> dict[str, Any]:
    from cross_backend.report.low_precision import conversion_share
    from cross_backend.report.verdicts import lower_precision

    row = result.to_json() | ({} if cases is None else {"test_cases": cases})
    document = {"schema": 1, "machine": work.site.machine.to_json(), "place": work.site.name, "results": [row]}
    if work.args.profile:
        rows = profile[0] if profile else ()
        total_ms = sum(timing.ms for timing in rows)
        document["iterations_ms"] = [ns / 1e6 for ns in result.latency.values] if result.latency else []
        document["profile_runs"] = profile[1] if profile else 0
        document["profile"] = [timing.to_json(total_ms) for timing in rows] if profile else None
        if profile and lower_precision(result):
            document["conversion_share"] = conversion_share(rows)
    return document


def _print(
    args: argparse.Namespace, result: Result, profile: Profile | None, cases: int | None, terminal: Terminal
) -> None:
    from cross_backend.report import tables
    from cross_backend.report.low_precision import spent
    from cross_backend.report.terminal import print_profile
    from cross_backend.report.verdicts import lower_precision

    right = "outputs are right" if cases is None else f"{cases} test case{'s are' if cases > 1 else ' is'} right"
    terminal.text(
        f"✅ {result.workload} on {result.target}: {right} "
        f"(largest error {tables.error(result.comparison)} of an element's scale)"
    )
    if result.sample_output:
        terminal.text(f"   output: {', '.join(f'{v:.6f}' for v in result.sample_output)}")
    if result.unranked is not None:
        terminal.text(f"   ⚠️ {result.unranked}")
    for warning in result.warnings:
        terminal.text(f"   ⚠️ {warning}")
    latency, measurement = result.latency_ms, result.latency
    if latency is None or measurement is None or result.mean_ms is None:
        return
    terminal.text(
        f"   ⏱️ {tables.milliseconds(latency.value)} ms median ({tables.milliseconds(latency.low)} – "
        f"{tables.milliseconds(latency.high)}), {tables.milliseconds(result.mean_ms)} ms avg, "
        f"{len(measurement.values)} runs, {args.threads} thread(s); loaded in {result.load_s or 0:.2f} s"
    )
    if args.profile:
        terminal.text(f"   {tables.iterations(measurement)}")
    if profile is not None:
        print_profile(terminal, *profile)
        if lower_precision(result):
            terminal.text(f"   {spent(profile[0])}")
