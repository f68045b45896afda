"""Localize: which operator of a program a backend computes wrongly, or on which it fails."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import UnavailableError, UnsupportedError
from cross_backend.localization.advice import advice_for
from cross_backend.localization.bug_shapes import bug_shapes, worst
from cross_backend.localization.found import BugShape, Culprit, LayerCost, Localized, Trial
from cross_backend.localization.judging import Case, cases_of, steps_of
from cross_backend.localization.kept import keep_localized
from cross_backend.localization.parts import AGAIN, CRASHES, Observe, Parts
from cross_backend.localization.quantised import by_cost, estimated_costs, layer_costs, seen_in_pieces
from cross_backend.localization.running import RanPart, Runner
from cross_backend.localization.search import SearchEnd, bound_of, search
from cross_backend.localization.whole import Values, Whole
from cross_backend.names.precisions import CALIBRATED
from cross_backend.program.captured import Captured, OnnxProgram
from cross_backend.program.kept_probes import with_kept_probes
from cross_backend.records import Outcome
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import precision_of

STATE = "state lost"


def ignore(doing: str, share: float | None) -> None:
    """Observe nothing."""


@dataclass(frozen=True)
class _Wrong:
    """How the whole program differs."""

    case: Case
    reason: str
    crash: bool = False
    lost_state: bool = False


def localize(
    captured: Captured,
    target: str,
    against: str | None = None,
    *,
    cache: Cache,
    settings: Settings,
    timeout_s: float = 1800.0,
    observe: Observe = ignore,
    lowered: Captured | None = None,
) -> Localized:
    """Find the smallest part of a program that is wrong on a target.

    Args:
        captured: the program, its inputs, and what is right for them.
        target: the backend with its options.
        against: another target, with which it is compared in place of the reference.
        cache: parts and their artifacts stay there.
        settings: threads, and the longest answer.
        timeout_s: longest lowering of a part.
        observe: told of each step.
        lowered: the program that is lowered where that is another one: with a fault that was planted, say.

    Raises:
        UnavailableError, UnsupportedError: a target cannot lower or run the program here, or it cannot be cut.
    """
    started = time.perf_counter()
    with ExitStack() as stack:
        runner = Runner(cache, settings, timeout_s, stack)
        found = _localized(captured, lowered or captured, target, against, runner, observe)
    found = replace(found, seconds=time.perf_counter() - started)
    if against is None and lowered is None:
        keep_localized(cache, captured.digest, str(resolve(target).target), found)
    return found


def whole_of(captured: Captured, inputs: Sequence[Any]) -> Whole:
    """Return a captured program as the search sees it; one that computes with its extents, for those of the inputs."""
    program = captured.program()
    if isinstance(program, OnnxProgram):
        from cross_backend.localization.onnx_whole import OnnxWhole

        return OnnxWhole(program.path)
    from cross_backend.localization.torch_whole import TorchWhole

    return TorchWhole(program, inputs)


def _localized(
    captured: Captured, lowered: Captured, target: str, against: str | None, runner: Runner, observe: Observe
) -> Localized:
    sample = with_kept_probes(load_tensors(captured.sample_path), runner.cache, captured.digest)
    precision = precision_of(resolve(target).options)
    cases = list(cases_of(sample, captured.inputs, precision))
    observe(f"the whole program on {target}", None)
    ran = _checked(runner.run(lowered, target, [one.known.inputs for one in cases]), target)
    if against is not None:
        observe(f"the whole program on {against}", None)
        other = _checked(runner.run(captured, against, [one.known.inputs for one in cases]), against)
        cases = [one.against(row.outputs) if row.outputs else one for one, row in zip(cases, other, strict=False)]
    reference = against or str(captured.proof.get("reference", "the reference"))
    empty = Localized(
        captured.workload,
        target,
        reference,
        Culprit.NOTHING,
        crash=False,
        reason=None,
        input_name=None,
        wrong_runs=0,
        runs=0,
        says="",
    )
    doubt = bytes(sample["doubt"][0]).decode(errors="replace") if "doubt" in sample else None
    if doubt is not None and against is None:
        raise UnsupportedError(f"the reference is in doubt ({doubt}); compare two backends with --against.")
    wrong = _wrong(cases, ran)
    if wrong is None and against is None:
        wrong = _wrong_steps(runner, lowered, target, steps_of(sample, precision))
    if wrong is None and precision in CALIBRATED and against is None:
        return _layers(empty, captured, target, runner, cases[0], observe)
    if wrong is None:
        says = f"{target} and {reference} agree on {len(cases)} input(s): there is nothing to localise."
        return replace(empty, says=says)
    empty = replace(empty, crash=wrong.crash, reason=wrong.reason, input_name=wrong.case.name)
    if wrong.lost_state:
        evidence = "the first call is right, and a later one on the state that it left is wrong"
        says = "No operator is wrong in the first call: the backend loses the program's state between calls."
        shapes = (BugShape(STATE, evidence),)
        found = replace(empty, culprit=Culprit.UNSURE, says=says, shapes=shapes, wrong_runs=1, runs=1)
        return replace(found, advice=advice_for(found, target))
    empty = _repeated(empty, runner, lowered, target, wrong)
    return _searched(empty, captured, lowered, target, against, runner, wrong, observe, sample)


def costs(
    captured: Captured,
    target: str,
    *,
    cache: Cache,
    settings: Settings,
    timeout_s: float = 1800.0,
    observe: Observe = ignore,
) -> tuple[LayerCost, ...]:
    """Return what each operator costs a quantised program, right or wrong; estimated where it shows no value.

    The arguments are those of :func:`localize`.
    """
    case, *_ = cases_of(load_tensors(captured.sample_path), captured.inputs, precision_of(resolve(target).options))
    with ExitStack() as stack:
        return _costs(captured, target, Runner(cache, settings, timeout_s, stack), case, observe)[1]


def _costs(
    captured: Captured, target: str, runner: Runner, case: Case, observe: Observe
) -> tuple[Whole, tuple[LayerCost, ...], tuple[Trial, ...]]:
    whole = whole_of(captured, case.known.inputs)
    values = whole.values(case.known.inputs)
    parts = Parts(whole, captured, runner, [target], case, values, 2 * len(whole.units), observe)
    seen = seen_in_pieces(parts)
    layers = layer_costs(whole, values, seen)
    hidden = set(range(len(whole.units))).difference(*(piece for piece, _ in seen))
    if hidden:
        rows = [whole.values(row) for row in captured.calibration()]
        layers = by_cost([*layers, *estimated_costs(whole, values, sorted(hidden), rows)])
    return whole, layers, tuple(one.trial for one in parts.tried)


def _layers(
    empty: Localized, captured: Captured, target: str, runner: Runner, case: Case, observe: Observe
) -> Localized:
    """Return what each operator costs a quantised program that is right."""
    whole, layers, trials = _costs(captured, target, runner, case, observe)
    says = f"{target} is right within its precision"
    if layers:
        says += f"; {layers[0].node} {'may cost' if layers[0].is_estimated else 'costs'} the outputs most"
    count, used = len(whole.units), len(trials)
    found = replace(empty, says=f"{says}.", layers=layers, trials=trials)
    return replace(found, count=count, lowerings=used, bound=max(bound_of(count), used))


def _checked(rows: list[RanPart], target: str) -> list[RanPart]:
    """Return how a whole program ran.

    Raises:
        UnavailableError, UnsupportedError: it never can, here or anywhere.
    """
    first = rows[0]
    if first.outcome is Outcome.UNAVAILABLE:
        raise UnavailableError(f"{target}: {first.reason}")
    if first.outcome is Outcome.UNSUPPORTED:
        raise UnsupportedError(f"{target}: {first.reason}")
    return rows


def _wrong(cases: Sequence[Case], rows: Sequence[RanPart]) -> _Wrong | None:
    """Return the first input on which outputs are wrong, or the target fails."""
    for case, ran in zip(cases, rows, strict=False):
        if ran.outcome in CRASHES:
            return _Wrong(case, ran.reason or str(ran.outcome), crash=True)
        reason = case.reason(ran.outputs)
        if reason is not None:
            return _Wrong(case, reason)
    return None


def _wrong_steps(runner: Runner, captured: Captured, target: str, steps: Sequence[Case]) -> _Wrong | None:
    if not steps:
        return None
    first = load_tensors(captured.sample_path)["input"]
    rows = runner.run(captured, target, [first, *(one.known.inputs for one in steps)])[1:]
    found = _wrong(steps, rows)
    return None if found is None else replace(found, lost_state=not found.crash)


def _repeated(empty: Localized, runner: Runner, captured: Captured, target: str, wrong: _Wrong) -> Localized:
    """Say in how many of several calls it is wrong."""
    if wrong.crash:
        return replace(empty, wrong_runs=1, runs=1)
    rows = runner.run(captured, target, [wrong.case.known.inputs] * (AGAIN - 1))
    again = sum(row.outcome is not Outcome.OK or wrong.case.reason(row.outputs) is not None for row in rows)
    return replace(empty, wrong_runs=1 + again, runs=1 + len(rows))


def _searched(
    empty: Localized,
    captured: Captured,
    lowered: Captured,
    target: str,
    against: str | None,
    runner: Runner,
    wrong: _Wrong,
    observe: Observe,
    sample: Any,
) -> Localized:
    given = wrong.case.known.inputs
    right = whole_of(captured, given)
    planted = right if lowered is captured else whole_of(lowered, given)
    values = right.values(given)
    targets = [target] if against is None else [target, against]
    bound = bound_of(len(right.units))
    parts = Parts(right, captured, runner, targets, wrong.case, values, bound, observe, planted)
    parts.flaky, parts.crash = empty.wrong_runs < empty.runs, wrong.crash
    ended, rows = search(parts, _other(right, wrong.case, sample), right.rounded(given))
    units = [right.units[at] for at in ended.numbers]
    doubt = f"The difference does not repeat: {empty.wrong_runs} of {empty.runs} calls are wrong, so this is not sure."
    found = replace(
        empty,
        culprit=ended.culprit,
        says=ended.says if not parts.flaky else f"{ended.says} {doubt}",
        operators=tuple(right.suspect(unit, values) for unit in units),
        graph=right.graph(values),
        nodes=tuple(rows),
        trials=tuple(one.trial for one in parts.tried),
        count=len(right.units),
        lowerings=len(parts.tried),
        bound=bound,
    )
    if not wrong.crash and ended.tried is not None:
        if against is None:
            found = _looked_at(found, right, ended, values)
        else:
            whose = _whose(wrong.case, right, ended.tried.got, values, target, sample)
            found = replace(found, says=f"{found.says} {whose}")
    return replace(found, advice=advice_for(found, target))


def _whose(case: Case, whole: Whole, got: Values, values: Values, target: str, sample: Any) -> str:
    """Say whether the first of two backends agrees with the reference."""
    original = next(one for one in cases_of(sample, (), case.precision, every=True) if one.name == case.name)
    differs = original.reason(whole.finish(values, got)) is not None
    return f"There {target} {'differs from' if differs else 'agrees with'} the reference."


def _other(whole: Whole, case: Case, sample: Any) -> Values:
    """Return the values of another input, which show how much each element changes."""
    given = sample.get("input2", sample["input"]) if case.known.inputs is sample["input"] else sample["input"]
    if given is case.known.inputs or [x.shape for x in given] != [x.shape for x in case.known.inputs]:
        return {}
    return whole.values(given)


def _looked_at(found: Localized, whole: Whole, ended: SearchEnd, values: Values) -> Localized:
    """Add what the difference of the part looks like."""
    import numpy as np

    got = ended.tried.got if ended.tried is not None else {}
    last = whole.units[ended.numbers[-1]]
    for name, made in got.items():
        want = values[name]
        if want.shape == made.shape and np.array_equal(want, made, equal_nan=want.dtype.kind == "f"):
            continue
        variants, inputs = {}, []
        if found.culprit is Culprit.OPERATOR:
            variants = {words: one[name] for words, one in whole.variants(last, values) if name in one}
            inputs = [values[one] for one in whole.needs(last) if one in values]
        expected, shown = worst(want, made)
        return replace(found, shapes=bug_shapes(want, made, inputs, variants), got=shown, expected=expected)
    return found
