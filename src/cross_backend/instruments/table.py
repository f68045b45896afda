"""Table of instruments, and taking them of one target after the other; a process that ends costs one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.errors import CrossBackendError, WorkerError, one_line, unknown_name
from cross_backend.instruments import cold_start
from cross_backend.instruments.accuracy import ACCURACY
from cross_backend.instruments.energy import ENERGY
from cross_backend.instruments.instrument import Instrument, Metrics, Pass
from cross_backend.instruments.memory import MEMORY
from cross_backend.instruments.open_loop import OPEN_LOOP
from cross_backend.instruments.throughput import THROUGHPUT
from cross_backend.records import Further, Panel

if TYPE_CHECKING:
    from cross_backend.bench.bench import Bench

INSTRUMENTS: Mapping[str, Instrument] = {
    "memory": MEMORY,
    "accuracy": ACCURACY,
    "throughput": THROUGHPUT,
    "open_loop": OPEN_LOOP,
    "energy": ENERGY,
}
"""In the order in which they are taken."""
INSTRUMENT_S = 2.0
"""Most seconds of each closed loop, and of each offered rate."""
LEAST_S = 0.5
ENOUGH_CALLS = 2000
"""Calls after which a closed loop may end that lasted :data:`LEAST_S`: the rate of a tiny program is known by then."""


def tables() -> list[Metrics]:
    """Return what reports show of all of them, in their order."""
    shown = [table for name in ("throughput", "open_loop", "memory", "energy") for table in INSTRUMENTS[name].tables]
    return [cold_start.TABLE, *shown]


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in the order in which they are taken.

    Raises:
        UsageError: an instrument that does not exist.
    """
    wanted = set(names)
    for name in sorted(wanted - INSTRUMENTS.keys()):
        raise unknown_name("instrument", name, INSTRUMENTS)
    return [name for name in INSTRUMENTS if name in wanted]


def take_each(
    open_bench: Callable[[ExitStack], Bench],
    names: Sequence[str],
    *,
    batch: int,
    task: tuple[str, Path] | None,
    call_s: float = INSTRUMENT_S,
    seed: int = 0,
) -> Further:
    """Take instruments of one target; after one that ends its process, the others go on in a fresh one.

    Args:
        open_bench: opens and verifies the target on a fresh bench, which the stack closes.
        names: of :data:`INSTRUMENTS`.
        batch: inferences a call.
        task: name of the workload's metric and the file with its samples; None where it has none.
        call_s: seconds of a call, as it was measured among the others.
        seed: of the arrivals.
    """
    left, state = in_order(names), Pass(batch, seed=seed, task=task)
    while left:
        with ExitStack() as stack:
            try:
                state.bench = open_bench(stack)
            except CrossBackendError as error:
                state.fail(left, f"it could not be opened again: {one_line(error)}")
                break
            while left:
                name = left.pop(0)
                state.seconds = loop_s(call_s) if name == "throughput" else INSTRUMENT_S
                try:
                    INSTRUMENTS[name].take(state)
                except WorkerError as error:
                    state.fail([name], one_line(error))
                    break
    return state.further


def loop_s(call_s: float) -> float:
    """Return the seconds of a closed loop of calls that take so long."""
    return min(INSTRUMENT_S, max(LEAST_S, ENOUGH_CALLS * call_s))


def with_further(panel: Panel, found: Mapping[int, Further]) -> Panel:
    """Add what further instruments gave to a panel's results."""
    results = list(panel.results)
    for index, further in found.items():
        result = results[index]
        broken = (f"{name}: its process failed: {reason}" for name, reason in further.failures.items())
        results[index] = replace(
            result,
            measurements=(*result.measurements, *further.measurements),
            absent={**result.absent, **further.absent},
            task={**result.task, **further.task},
            notes={**result.notes, **further.notes},
            failures={**result.failures, **further.failures},
            localized=further.localized or result.localized,
            warnings=(*result.warnings, *broken),
        )
    return replace(panel, results=tuple(results))
