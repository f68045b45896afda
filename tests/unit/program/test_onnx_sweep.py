"""Every operator of ONNX at every opset version from 7 on: what is taken as truth is what ONNX's own cases say."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

from cross_backend.errors import CaptureError
from cross_backend.program.onnx_truth import find_truth
from cross_backend.verify.deviation import agree

FIRST = 7
CASES_EACH = 2
"""Cases of an operator: there are up to a hundred of one."""
RANDOM = {
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
CHANGED = {"Softmax", "LogSoftmax", "Hardmax"}
"""Operators whose meaning changed at opset 13: the converter's older file is another function than the case."""
AGREED, ALONE, DOUBT, NONE, WRONG = "agreed", "alone", "in doubt", "no reference", "WRONG"


def cases() -> Iterator[tuple[str, Any, dict[str, Any], list[Any]]]:
    """Yield operator, model, inputs and outputs of the cases that the package brings, but random and textual ones."""
    from onnx.backend.test.case.node import collect_testcases

    seen: Counter[str] = Counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        operator = case.model.graph.node[0].op_type if case.model.graph.node else ""
        if operator in RANDOM or seen[operator] >= CASES_EACH or case.name.endswith("_expanded"):
            continue
        if any(isinstance(x, list | tuple) for side in case.data_sets[0] for x in side):
            continue  # sequences
        inputs, outputs = ([np.asarray(x) for x in side] for side in case.data_sets[0])
        if all(x.dtype.kind in "biuf" for x in (*inputs, *outputs)):
            seen[operator] += 1
            feed = {value.name: x for value, x in zip(case.model.graph.input, inputs, strict=False)}
            yield operator, case.model, feed, outputs


def versions(operator: str, model: Any) -> Iterator[tuple[int, Any]]:
    """Yield the model at each opset version to which ONNX converts it."""
    from onnx import version_converter

    own = max((one.version for one in model.opset_import if one.domain in {"", "ai.onnx"}), default=0)
    yield own, model
    for version in range(FIRST if operator not in CHANGED else 13, own):
        try:
            made = version_converter.convert_version(model, version)
            onnx.checker.check_model(made)
        except Exception:  # most operators are younger than some versions
            continue
        yield version, made


def ended(model: Any, feed: dict[str, Any], outputs: list[Any]) -> str:
    """Return how one model's truth compares with what its case says."""
    try:
        truth = find_truth(model, feed, "case")
    except CaptureError:
        return NONE
    if truth.doubt is not None:
        return DOUBT
    if len(outputs) == len(truth.outputs) and agree(outputs, [np.asarray(y) for y in truth.outputs]):
        return AGREED if truth.reference.endswith("agrees") else ALONE
    return WRONG if truth.reference.endswith("agrees") else f"{ALONE}, {WRONG}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_operator_at_every_opset() -> None:
    table: dict[int, Counter[str]] = defaultdict(Counter)
    wrong, operators = [], set()
    for operator, model, feed, outputs in cases():
        operators.add(operator)
        for version, made in versions(operator, model):
            found = ended(made, feed, outputs)
            table[version][found] += 1
            if WRONG in found:
                wrong.append((operator, version, found))
    print(f"{len(operators)} operators\n{'opset':>6}" + "".join(f"{name:>16}" for name in (AGREED, ALONE, DOUBT, NONE)))
    for version in sorted(table):
        print(f"{version:>6}" + "".join(f"{table[version][name]:>16}" for name in (AGREED, ALONE, DOUBT, NONE)))
    print(f"wrong: {wrong}")
    assert len(operators) > 150 and sum(row[AGREED] for row in table.values()) > 1000
    assert not [one for one in wrong if one[2] == WRONG], wrong
