"""Parts on a backend: some operators there, the rest in the reference, judged by what the program then returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cross_backend.errors import CaptureError, UnsupportedError, one_line
from cross_backend.localization.found import Trial
from cross_backend.localization.judging import Case
from cross_backend.localization.running import RanPart, Runner
from cross_backend.localization.whole import Values, Whole
from cross_backend.program.capture import TRACING
from cross_backend.program.captured import Captured
from cross_backend.program.captures import KIND
from cross_backend.records import Outcome
from cross_backend.registry import resolve

RIGHT, WRONG, CRASH, UNKNOWN = "right", "wrong", "crash", "unknown"
PARALLEL = 2
"""Parts that are lowered at once."""
CRASHES = {Outcome.LOWER_FAIL, Outcome.LOAD_FAIL, Outcome.RUN_FAIL, Outcome.TIMEOUT}
AGAIN = 5
"""Calls of each part where the difference does not repeat."""

Observe = Callable[[str, float | None], None]
"""Called with what is done, and the share of the bound that is used."""


@dataclass(frozen=True)
class TriedPart:
    """A part that was lowered and run."""

    trial: Trial
    got: Values
    """What left it on the backend; empty where it did not run."""


class Parts:
    """Lowers parts of one program, counts them, and remembers what they showed."""

    def __init__(
        self,
        whole: Whole,
        captured: Captured,
        runner: Runner,
        targets: Sequence[str],
        case: Case,
        values: Values,
        bound: int,
        observe: Observe,
        planted: Whole | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            whole: the program.
            captured: the same as a workload.
            runner: lowers and runs.
            targets: the backend, and the one that it is compared with where that is not the reference.
            case: the input on which they differ.
            values: what the reference computes for it.
            bound: most parts.
            observe: told of each.
            planted: the program that is lowered, where that is another one than ``whole``.
        """
        self.whole, self.captured, self._runner, self.targets = whole, captured, runner, tuple(targets)
        self.case, self.values, self.bound, self._observe = case, values, bound, observe
        self._lowered = planted or whole
        self.flaky = False
        """Whether the difference does not repeat, so that each part is called several times."""
        self.crash = False
        """Whether the whole fails rather than being wrong."""
        self.tried: list[TriedPart] = []
        self._known: dict[frozenset[str], TriedPart] = {}
        self._calibration: list[Values] | None = None

    @property
    def left(self) -> int:
        """Parts that may still be lowered."""
        return self.bound - len(self.tried)

    def names(self, numbers: Collection[int]) -> list[str]:
        """Return the values of operators by number."""
        return [name for at in sorted(numbers) for name in self.whole.units[at]]

    def try_all(self, parts: Sequence[tuple[Any, ...]]) -> list[TriedPart]:
        """Try several parts at once; each is the arguments of :meth:`attempt`."""
        with ThreadPoolExecutor(PARALLEL) as executor:
            return list(executor.map(lambda one: self.attempt(*one), parts))

    def attempt(
        self, what: str, numbers: Collection[int], outputs: Collection[str] | None = None, flat: bool = False
    ) -> TriedPart:
        """Return what a part shows: the backend computes it, the reference what is before and after.

        Args:
            what: name for the reader.
            numbers: of the operators.
            outputs: values that leave; those that others use where None.
            flat: whether they may leave as one row.
        """
        nodes = self.names(numbers)
        key = frozenset(nodes)
        if key in self._known and outputs is None:
            return self._known[key]
        self._observe(what, len(self.tried) / max(self.bound, 1))
        tried = self._try(what, nodes, outputs, flat)
        self.tried.append(tried)
        if outputs is None:
            self._known[key] = tried
        return tried

    def _try(self, what: str, nodes: list[str], outputs: Collection[str] | None, flat: bool) -> TriedPart:
        def ended(outcome: str, reason: str | None, cached: bool = False, got: Values | None = None) -> TriedPart:
            return TriedPart(Trial(what, self.targets[0], tuple(nodes), outcome, reason, cached), got or {})

        try:
            written = self._write(nodes, outputs, flat)
        except UnsupportedError as error:
            return ended(UNKNOWN, one_line(error))
        rows: list[list[RanPart]] = [self._run(written, target) for target in self.targets]
        ran = rows[0][-1]
        if any(one[-1].outcome is not Outcome.OK for one in rows):
            if self.crash:
                is_crash = ran.outcome in CRASHES
                return ended(CRASH if is_crash else UNKNOWN, ran.reason, ran.cached)
            failed = next(one[-1] for one in rows if one[-1].outcome is not Outcome.OK)
            return ended(UNKNOWN, failed.reason, ran.cached)
        got = self._named(written, ran, flat)
        if self.crash:
            return ended(RIGHT, None, ran.cached, got)
        case, reason = self.case, None
        if len(rows) > 1:
            case = case.against(self._finished(self._named(written, rows[1][-1], flat)))
        try:
            for one in rows[0]:
                got = self._named(written, one, flat)
                reason = case.reason(self._finished(got))
                if reason is not None:
                    break
        except CaptureError as error:  # the reference cannot go on with such values
            reason = one_line(error)
        return ended(RIGHT if reason is None else WRONG, reason, ran.cached, got)

    def _named(self, written: Captured, ran: RanPart, flat: bool) -> Values:
        """Return name → value of what a part returned, in the program's shapes."""
        pairs = zip((spec.name for spec in written.outputs), ran.outputs, strict=True)
        return {name: x.reshape(self.values[name].shape) if flat else x for name, x in pairs}

    def _finished(self, got: Values) -> list[Any]:
        return self.whole.finish(self.values, got)

    def _run(self, written: Captured, target: str) -> list[RanPart]:
        """Run a part; what a backend does not take itself runs where it would leave it in the whole program."""
        inputs = [self._inputs(written)] * (AGAIN if self.flaky else 1)
        found = self._runner.run(written, target, inputs)
        otherwise = resolve(target).backend.otherwise
        if found[-1].outcome is Outcome.UNSUPPORTED and otherwise:
            return self._runner.run(written, otherwise, inputs)
        return found

    def _inputs(self, written: Captured) -> list[Any]:
        return [self.values[spec.name] for spec in written.inputs]

    def _write(self, nodes: Collection[str], outputs: Collection[str] | None, flat: bool) -> Captured:
        cache = self._runner.cache
        with TRACING, cache.scratch() as folder:
            name, rows = self.captured.workload, self._calibrations()
            made = self._lowered.write(name, nodes, self.values, rows, folder, outputs, flat=flat)
            return Captured.read(cache.publish(folder, KIND, made.digest[:32]))

    def _calibrations(self) -> list[Values]:
        """Return the values on which a quantiser observes a part; of other targets none are needed."""
        from cross_backend.names.precisions import CALIBRATED

        if self._calibration is None:
            needed = any(resolve(target).options.get("precision") in CALIBRATED for target in self.targets)
            rows = self.captured.calibration() if needed else []
            self._calibration = [self.whole.values(row) for row in rows]
        return self._calibration
