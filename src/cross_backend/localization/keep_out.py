"""Keep out: the program in parts, some operators of it elsewhere; whether it is right then, and what that costs."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import RunError, UnsupportedError, unknown_name
from cross_backend.localization.found import KeptOut
from cross_backend.localization.judging import Case, cases_of
from cross_backend.localization.localize import costs, ignore, whole_of
from cross_backend.localization.parts import Observe
from cross_backend.localization.quantised import drop, fewest
from cross_backend.localization.running import RanPart, Runner
from cross_backend.localization.whole import Values, Whole
from cross_backend.names.precisions import CALIBRATED
from cross_backend.program.captured import Captured
from cross_backend.program.captures import KIND
from cross_backend.records import Outcome
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import precision_of

MOST_INPUTS = 64
"""Calibration inputs by which a drop is judged."""


@dataclass
class _Mixed:
    """A program of which some operators are computed elsewhere."""

    whole: Whole
    captured: Captured
    target: str
    elsewhere: str
    case: Case
    values: Values
    calibration: Sequence[Values]
    """Values for each input that quantisers observe, and by which a drop is judged."""
    runner: Runner
    observe: Observe

    def run(self, nodes: Collection[str]) -> tuple[list[list[Any]], list[tuple[Artifact, str]]]:
        """Return the outputs for the case and for the calibration inputs, and the artifact of each part."""
        rows = [self.values, *self.calibration]
        made = {name for unit in self.whole.units for name in unit}
        known = [{name: one for name, one in row.items() if name not in made} for row in rows]
        artifacts = []
        pieces = self._pieces(set(nodes))
        for at, (names, wanted) in enumerate(pieces):
            self.observe(f"part {at + 1} of {len(pieces)} on {wanted}", at / len(pieces))
            written = self._written(names)
            inputs = [[row[spec.name] for spec in written.inputs] for row in known]
            where, ran = wanted, self.runner.run(written, wanted, inputs)
            if self.calibration and ran[-1].outcome is Outcome.UNSUPPORTED:  # of these operators it quantises none
                where, ran = self.elsewhere, self.runner.run(written, self.elsewhere, inputs)
            for row, one in zip(known, ran, strict=False):
                row.update(zip((spec.name for spec in written.outputs), _outputs(one, where), strict=True))
            artifact = ran[-1].artifact
            assert artifact is not None, "it ran"
            artifacts.append((artifact, where))
        return [[row[name] for name in self.whole.outputs] for row in known], artifacts

    def _pieces(self, nodes: set[str]) -> list[tuple[list[str], str]]:
        """Return the operators in parts that run one after the other, each with its target."""
        grouped = itertools.groupby(self.whole.units, lambda unit: bool(set(unit) & nodes))
        return [
            ([name for unit in units for name in unit], self.elsewhere if is_out else self.target)
            for is_out, units in grouped
        ]

    def _written(self, names: Collection[str]) -> Captured:
        cache = self.runner.cache
        with cache.scratch() as folder:
            name = self.captured.workload
            made = self.whole.write(name, names, self.values, self.calibration, folder)
            return Captured.read(cache.publish(folder, KIND, made.digest[:32]))

    def kept(self, nodes: Sequence[str], first: Artifact) -> KeptOut:
        """Judge and time the program with some operators elsewhere, beside the whole on its target."""
        outputs, artifacts = self.run(nodes)
        whole_ms = self.runner.median_ms(first, self.target)
        parts_ms = sum(self.runner.median_ms(artifact, where) for artifact, where in artifacts)
        reason = self.case.reason(outputs[0])
        return KeptOut(tuple(nodes), self.elsewhere, reason is None, reason, whole_ms, parts_ms, len(artifacts))


def keep_out(
    captured: Captured,
    target: str,
    nodes: Sequence[str],
    elsewhere: str | None = None,
    *,
    cache: Cache,
    settings: Settings,
    timeout_s: float = 1800.0,
    observe: Observe = ignore,
) -> KeptOut:
    """Compute some operators on another target, the others on the backend, and judge the whole.

    Args:
        captured: the program.
        target: the backend.
        nodes: names of operators.
        elsewhere: the other target; where None, the one that runs what the backend leaves, or float32 of a backend
            that quantises.
        cache: parts and their artifacts stay there.
        settings: threads, and the longest answer.
        timeout_s: longest lowering of a part.
        observe: told of each step.

    Raises:
        UsageError: the program has no operator of a name.
        UnsupportedError: no other target is known, or the program cannot be cut there.
        RunError: a part does not run.
    """
    with ExitStack() as stack:
        mixed, first = _mixed(captured, target, elsewhere, Runner(cache, settings, timeout_s, stack), observe)
        known = {name for unit in mixed.whole.units for name in unit}
        for name in set(nodes) - known:
            raise unknown_name("operator", name, known)
        return mixed.kept(nodes, first)


def mix(
    captured: Captured,
    target: str,
    max_drop: float,
    elsewhere: str | None = None,
    *,
    cache: Cache,
    settings: Settings,
    timeout_s: float = 1800.0,
    observe: Observe = ignore,
) -> KeptOut:
    """Keep the fewest operators of a quantised program in float with which a drop holds.

    The operators are those that cost the outputs most.

    Args:
        captured: the program.
        target: the backend, with a precision that quantises.
        max_drop: largest drop, see :func:`~cross_backend.localization.quantised.drop`.
        elsewhere: as of :func:`keep_out`.
        cache: parts and their artifacts stay there.
        settings: threads, and the longest answer.
        timeout_s: longest lowering of a part.
        observe: told of each step.

    Raises:
        UnsupportedError: the target does not quantise, or the drop does not hold with all operators in float either.
    """
    if precision_of(resolve(target).options) not in CALIBRATED:
        raise UnsupportedError(
            f"{target} is not quantised; --max-drop takes a target such as '{target}?precision=int8'."
        )
    layers = costs(captured, target, cache=cache, settings=settings, timeout_s=timeout_s, observe=observe)
    order = [row.node for row in layers]
    if not order:
        raise UnsupportedError(f"{captured.workload} has no float value, so there is nothing to keep in float.")
    with ExitStack() as stack:
        mixed, first = _mixed(captured, target, elsewhere, Runner(cache, settings, timeout_s, stack), observe)
        wanted = [[row[name] for name in mixed.whole.outputs] for row in mixed.calibration]
        drops: dict[int, float] = {}

        def drop_of(count: int) -> float:
            if count not in drops:
                observe(f"{count} operators in float", None)
                drops[count] = drop(wanted, mixed.run(order[:count])[0][1:])
            return drops[count]

        count = fewest(len(order), drop_of, max_drop)
        if count is None:
            raise UnsupportedError(
                f"with all {len(order)} operators in float the drop is {drops[len(order)]:.2%} still."
            )
        kept = mixed.kept(order[:count], first)
        return replace(kept, layers=layers[:count], drop=drops[count], drop_before=drops[0], inputs=len(wanted))


def _mixed(
    captured: Captured, target: str, elsewhere: str | None, runner: Runner, observe: Observe
) -> tuple[_Mixed, Artifact]:
    resolved = resolve(target)
    precision = precision_of(resolved.options)
    if elsewhere is None and precision in CALIBRATED and "fp32" in resolved.backend.precisions:
        elsewhere = f"{resolved.target.name}?precision=fp32"
    elsewhere = elsewhere or resolved.backend.otherwise or None
    if elsewhere is None:
        raise UnsupportedError(f"UNSUPPORTED: {target} leaves no operators; name a target for them with --against.")
    (case, *_) = cases_of(load_tensors(captured.sample_path), captured.inputs, precision)
    whole = whole_of(captured, case.known.inputs)
    observe(f"the whole program on {target}", None)
    (first, *_) = runner.run(captured, target)
    if first.artifact is None or first.outcome is not Outcome.OK:
        raise RunError(f"{target}: {first.outcome}: {first.reason}")
    rows = captured.calibration()[:MOST_INPUTS] if precision in CALIBRATED else []
    calibration = [whole.values(row) for row in rows]
    return _Mixed(
        whole, captured, target, elsewhere, case, whole.values(case.known.inputs), calibration, runner, observe
    ), first.artifact


def _outputs(ran: RanPart, where: str) -> Sequence[object]:
    if ran.outcome is not Outcome.OK:
        raise RunError(f"{where}: {ran.outcome}: {ran.reason}")
    return ran.outputs
