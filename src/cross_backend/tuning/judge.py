"""Judge: what a candidate's accuracy is, and whether it may go on; taken while it is open, before it is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from cross_backend.bench.bench import Bench
from cross_backend.cache import Cache
from cross_backend.comparison.contestant import Contestant
from cross_backend.comparison.opening import open_again
from cross_backend.comparison.scoring import scored
from cross_backend.comparison.settings import Settings
from cross_backend.errors import CrossBackendError, UnavailableError, UnsupportedError, WorkerError, one_line
from cross_backend.exporting.export import Exported
from cross_backend.instruments.instrument import Pass
from cross_backend.instruments.table import INSTRUMENTS
from cross_backend.instruments.top_classes import TopClasses, agreement
from cross_backend.names.target import Target
from cross_backend.program.captured import Captured
from cross_backend.records import PEAK, Result
from cross_backend.registry import Resolved
from cross_backend.tuning.bounds import points
from cross_backend.tuning.tuned import Loss

AGREEMENT = "top-1 agreement with fp32"
ERROR = "relative error"


@dataclass
class Judge:
    """Takes accuracy and memory of candidates, and turns away who loses too much."""

    captured: Captured
    loss: Loss
    max_drop: float
    settings: Settings
    cache: Cache
    classes: Sequence[int] = ()
    """Of float32, an input; empty where accuracy is not agreement."""
    _known: dict[str, float] = field(default_factory=dict)
    """Payload → accuracy: other threads run the same file."""

    @classmethod
    def of(
        cls, captured: Captured, rows: Sequence[Exported], max_drop: float, settings: Settings, cache: Cache
    ) -> Judge:
        """Find how accuracy is measured: by the model's task, by the classes that float32 computes, or by the error.

        Args:
            captured: the model.
            rows: float32 targets, in the order in which they are tried as the reference.
            max_drop: largest loss.
            settings: how to open them.
            cache: where logs go.

        Raises:
            UnavailableError: the model has a task, and no float32 target runs here.
        """
        error = Loss(ERROR, "of the sample's outputs, 10^(−SQNR/20), against the reference", 0.0, is_error=True)
        why = "no float32 target was lowered"
        for row in rows:
            try:
                with ExitStack() as stack:
                    bench = open_again(row, settings, cache, stack)
                    if captured.metric is not None:
                        loss = Loss(captured.metric, "on the model's held-out samples", scored(bench, captured))
                        return cls(captured, loss, max_drop, settings, cache)
                    classes = bench.take(TopClasses(_observed(captured)))
                    if classes:
                        loss = Loss(
                            AGREEMENT, f"on {len(classes)} calibration input{'s' if len(classes) > 1 else ''}", 1.0
                        )
                        return cls(captured, loss, max_drop, settings, cache, classes)
                return cls(captured, error, max_drop, settings, cache)
            except CrossBackendError as problem:
                why = one_line(problem)
        if captured.metric is not None:
            raise UnavailableError(
                f"{captured.workload}: float32 has no {captured.metric} here, because {why}",
                "Name a backend that runs here in float32: cross-backend backends",
            )
        return cls(captured, error, max_drop, settings, cache)

    def admit(self, captured: Captured) -> Callable[[Contestant], None]:
        """Return what judges a target of a captured batch size that was opened for the first time."""
        return lambda contestant: self._admit(captured, contestant)

    def _admit(self, captured: Captured, contestant: Contestant) -> None:
        if not self.loss.is_error and contestant.bench is not None and contestant.exported.resolved is not None:
            key = f"{captured.batch} {_payload(contestant.exported.resolved)}"
            try:
                if key not in self._known:
                    self._known[key] = self._accuracy(captured, contestant.exported, contestant.bench)
                contestant.result = replace(contestant.result, task={self.loss.name: self._known[key]})
            except WorkerError:
                raise
            except CrossBackendError as error:
                contestant.result = replace(contestant.result, absent={self.loss.name: one_line(error)})
        drop = self.drop_of(contestant.result)
        if drop is None or drop > self.max_drop:
            lost = "unknown" if drop is None else points(drop)
            contestant.result = replace(
                contestant.result, unranked=f"drop {lost}, at most {points(self.max_drop)} is allowed"
            )
            if contestant.bench is not None:
                contestant.bench.close()
                contestant.bench = None

    def _accuracy(self, captured: Captured, row: Exported, bench: Bench) -> float:
        try:
            return self._taken(captured, bench)
        except (UnsupportedError, UnavailableError):  # the bench there takes no readings: the same file is read here
            with ExitStack() as stack:
                return self._taken(captured, open_again(row, self.settings, self.cache, stack))

    def _taken(self, captured: Captured, bench: Bench) -> float:
        if captured.metric is not None:
            return scored(bench, captured)
        return agreement(bench.take(TopClasses(_observed(captured))), list(self.classes))

    def finish(self, contestant: Contestant) -> None:
        """Read the memory of a target that was measured; the session is closed for it."""
        if contestant.bench is None:
            return
        state = Pass(batch=self.captured.batch)
        state.bench = contestant.bench
        try:
            INSTRUMENTS["memory"].take(state)
        except WorkerError as error:
            state.fail([PEAK], one_line(error))
        measurements = (*contestant.result.measurements, *state.measurements)
        absent = {**contestant.result.absent, **state.absent}
        failures = {**contestant.result.failures, **state.failures}
        contestant.result = replace(contestant.result, measurements=measurements, absent=absent, failures=failures)

    def accuracy_of(self, result: Result) -> float | None:
        """Return a result's accuracy; None where it is unknown."""
        if not self.loss.is_error:
            return result.task.get(self.loss.name)
        return None if result.comparison is None else 10 ** (-result.comparison.sqnr_db / 20)

    def drop_of(self, result: Result) -> float | None:
        """Return how much worse than float32 a result is; None where that is unknown."""
        value = self.accuracy_of(result)
        return None if value is None or not math.isfinite(value) else self.loss.drop(value)


def _observed(captured: Captured) -> Path:
    """Return the file with the inputs that quantisers observe."""
    own = captured.folder / "calibration.npz"
    return own if own.is_file() else captured.sample_path


def _payload(resolved: Resolved) -> str:
    """Return a target without what only changes how fast it runs."""
    options = {key: value for key, value in resolved.target.options.items() if key != "threads"}
    return str(Target(resolved.target.name, options))
