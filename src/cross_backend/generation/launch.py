"""A launch of a study's panel that generates: every target in a fresh process, interleaved by whole sequences."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from cross_backend.cache import Cache
from cross_backend.comparison.launch import Look, Progress, silent, unseen
from cross_backend.comparison.panel import RunLaunch
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Site
from cross_backend.errors import UsageError
from cross_backend.exporting.export import Exported
from cross_backend.generation.rows import Length
from cross_backend.generation.run import SEQUENCES, TargetTexts, samples_of, sequences_of
from cross_backend.program.captured import Captured
from cross_backend.records import Launch, Outcome, Result

LEAST = 3
"""Timed sequences of each target in a launch."""


def generating(length: Length, part: str, context: int | None) -> RunLaunch:
    """Return what does one launch, whose latencies are those of one part of a sequence.

    Args:
        length: of prompt and new tokens.
        part: ``prefill``: the calls that take the prompt; ``decode``: one call for each further token.
        context: positions of the model's caches; None where that is not known.
    """

    def run(
        captured: Captured,
        rows: Sequence[Exported],
        settings: Settings,
        cache: Cache,
        before: Sequence[Launch] = (),
        progress: Progress = silent,
        wanted: Sequence[int] | None = None,  # noqa: ARG001  all targets take turns, decided or not
        look: Look = unseen,  # noqa: ARG001
        site: Site = HERE,
    ) -> tuple[Launch, bool]:
        if site is not HERE:
            raise UsageError(f"{captured.workload}: generate is measured on this machine only, not on {site.name}.")
        asked = length if part == "decode" else replace(length, new=1)
        each = max(LEAST, math.ceil(SEQUENCES / settings.most_launches))
        moved = replace(settings, seed=settings.seed + len(before))
        started, runs = time.perf_counter(), []
        for _, found in sequences_of(captured, rows, [asked], moved, cache, context, each, progress):
            runs = found
        results = tuple(_result(one, part) for one in runs)
        seconds = time.perf_counter() - started
        return Launch(results, seconds=seconds, program=captured.digest, proof=captured.proof), False

    return run


def _result(run: TargetTexts, part: str) -> Result:
    result = run.contestant.result
    if result.outcome is not Outcome.OK or not run.sequences:
        return result
    return replace(result, latency=samples_of(run, part, "latency"))
