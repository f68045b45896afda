"""Instrument: what each is, and one pass of them over an open artifact."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.errors import CrossBackendError, UnavailableError, WorkerError, one_line
from cross_backend.machine import Machine
from cross_backend.measure.sensors import SYS_CLASS
from cross_backend.measurement import Measurement
from cross_backend.records import Further

if TYPE_CHECKING:
    from cross_backend.bench.bench import Bench


@dataclass(frozen=True)
class Metrics:
    """Metrics that reports show in one table."""

    prefix: str
    """Of their names, before the dot."""
    title: str
    """Of the table."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """What follows the dot → how a reader knows it, in the order of the columns; other parts come after them."""


@dataclass
class Pass:
    """One pass over the instruments of one target; most of them find something, some find why not."""

    bench: Bench = field(init=False)
    """Has an artifact open that was verified; nothing else works meanwhile."""
    batch: int = 1
    """Inferences a call."""
    seconds: float = 5.0
    """Wall time of each closed loop, and of each offered rate."""
    seed: int = 0
    """Of the arrivals."""
    streams: Sequence[int] = field(default_factory=lambda: sorted({1, Machine.here().usable_cpus}))
    """Numbers of concurrent streams."""
    capacity_per_s: float | None = None
    """Calls a second of one stream, for the offered rates; measured where None."""
    task: tuple[str, Path] | None = None
    """Name of the workload's metric and the file with its samples; None where it has none."""
    sys_class: Path = SYS_CLASS
    """Where Linux shows its sensors."""
    measurements: list[Measurement] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def further(self) -> Further:
        """What was found until now."""
        return Further(
            measurements=tuple(self.measurements),
            absent=self.absent,
            task=self.scores,
            notes=self.notes,
            failures=self.failures,
        )

    def fail(self, names: Iterable[str], reason: str) -> None:
        """Keep why instruments gave nothing: their process ended."""
        for name in names:
            self.absent[name] = self.failures[name] = reason

    @property
    def pid(self) -> int:
        """The process that holds the session.

        Raises:
            UnavailableError: it is not on this machine.
        """
        if self.bench.pid is None:
            raise UnavailableError("it runs on another machine, whose counters are not read from here")
        return self.bench.pid

    @contextlib.contextmanager
    def attempt(self, metric: str) -> Iterator[None]:
        """Do one thing; where it fails, its reason stands for the metric."""
        try:
            yield
        except WorkerError:
            raise
        except CrossBackendError as error:
            self.absent[metric] = str(error)
        except Exception as error:  # a sensor that goes away, a driver's own exceptions
            self.absent[metric] = one_line(error)

    def keep(self, metric: str, unit: str, values: Iterable[float]) -> None:
        """Keep one value a round."""
        self.measurements.append(Measurement(metric, unit, tuple((float(value),) for value in values)))


@dataclass(frozen=True)
class Instrument:
    """What is measured of one target alone."""

    about: str
    """What it measures, in one clause."""
    cost_s: tuple[float, float]
    """Seconds that it takes of a target, at least and at most, where calls are short."""
    take: Callable[[Pass], None]
    """Measure; what fails is absent with its reason. Raises WorkerError where the process died."""
    tables: tuple[Metrics, ...] = ()
