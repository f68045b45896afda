"""Joined: what the launches of a panel gave, put together target by target."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cross_backend.measurement import Measurement
from cross_backend.records import INTERRUPTED, Launch, Outcome, Result


def merged(launches: Sequence[Launch]) -> list[Result]:
    """Join the results of each target; nothing is ranked."""
    rounds = [max((len(r.latency.rounds) for r in launch.results if r.latency), default=0) for launch in launches]
    return [merge([launch.results[i] for launch in launches], rounds) for i in range(len(launches[0].results))]


def merge(parts: Sequence[Result], rounds: Sequence[int]) -> Result:
    """Join what one target gave in several launches; a failure in any of them is its end.

    Args:
        parts: one a launch.
        rounds: of each launch. Where it was not started, or an interrupt came before its first block, its rounds are
            empty: all targets of a panel have the same rounds.
    """
    at, failed = next(((i, part) for i, part in enumerate(parts) if part.outcome is not Outcome.OK), (0, None))
    if failed is not None:
        was_opened = any(part.comparison is not None for part in parts[:at])
        reason = f"in launch {at + 1}: {failed.reason}" if was_opened else failed.reason
        return replace(failed, latency=None, reason=reason)
    first = next((part for part in parts if part.comparison is not None), parts[0])  # where it was opened first
    latencies = []
    if any(part.latency for part in parts):
        unvisited = (Measurement("latency", "ns", ((),) * count, (count,)) for count in rounds)
        latencies = [part.latency or empty for part, empty in zip(parts, unvisited, strict=True) if empty.rounds]
    if not latencies and first.comparison is None:
        return replace(first, outcome=Outcome.NOT_MEASURED, reason=INTERRUPTED)
    if not latencies and first.unranked is None:
        first = replace(first, unranked=INTERRUPTED)
    metrics: dict[str, list[Measurement]] = {}
    for part in parts:
        for measurement in part.measurements:
            metrics.setdefault(measurement.metric, []).append(measurement)
    loads = [part.load_s for part in parts if part.load_s is not None]
    return replace(
        first,
        latency=Measurement.joined(latencies) if latencies else None,
        measurements=tuple(map(Measurement.joined, metrics.values())),
        load_s=statistics.median(loads) if loads else None,
        warnings=deduplicate_warnings(text for part in parts for text in part.warnings),
    )


def deduplicate_warnings(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return each warning once; those that differ in their numbers only by the first, with how many there were."""
    kinds: dict[str, list[str]] = {}
    for text in warnings:
        kinds.setdefault(re.sub(r"\d[\d.,]*", "#", text), []).append(text)
    return tuple(
        texts[0] if len(set(texts)) == 1 else f"{texts[0]} (the first of {len(texts)} such warnings)"
        for texts in kinds.values()
    )


def twins(launches: Sequence[Launch]) -> tuple[Measurement, Measurement] | None:
    """Return the same targets in two processes, from the launches that have a twin; not of one target in all."""
    pairs = []
    for launch in launches:
        if launch.twin is not None and launch.twin_of is not None:
            first, twin = launch.results[launch.twin_of].latency, launch.twin.latency
            if first is not None and twin is not None:
                pairs.append((first, twin))
    if not pairs:
        return None
    firsts, others = zip(*pairs, strict=True)
    return Measurement.joined(firsts), Measurement.joined(others)
