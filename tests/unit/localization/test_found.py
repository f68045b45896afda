"""Found: the JSON document and what is printed of it."""

from __future__ import annotations

import io
import json
import math
from dataclasses import asdict, replace
from pathlib import Path

from cross_backend.localization.found import (
    BugShape,
    Culprit,
    GraphStep,
    KeptOut,
    LayerCost,
    Localized,
    NodeError,
    Suspect,
    Trial,
)
from cross_backend.report.localized import bar, print_kept_out, print_localized
from cross_backend.report.terminal import Terminal

DOCUMENTED = (Path(__file__).parents[3] / "docs" / "json.md").read_text(encoding="utf-8")
SUSPECT = Suspect(
    "conv", "aten.conv2d.default", "net.py:3 forward: y", ("float32[1, 3]",), ("float32[1]",), {"pad": "1"}
)
FOUND = Localized(
    "net",
    "openvino",
    "eager float32",
    Culprit.OPERATOR,
    crash=False,
    reason="output 0 deviates",
    input_name="the sample input",
    wrong_runs=5,
    runs=5,
    says="conv is wrong on its own.",
    operators=(SUSPECT,),
    shapes=(BugShape("ties", "2 element(s) differ"),),
    advice=("Compute it elsewhere.",),
    nodes=(
        NodeError("x", "aten.relu.default", None, 1e-7, 1e-7, 1e-7, parts=False),
        NodeError("conv", "aten.conv2d.default", None, math.inf, math.inf, 1e-7, parts=True),
        NodeError("y", "aten.relu.default", None, 0.5, 0.0, 1e-7, parts=False),
    ),
    trials=(Trial("conv alone", "openvino", ("conv",), "wrong", "why", cached=True),),
    count=3,
    lowerings=1,
    bound=5,
    got=(math.nan,),
    expected=(1.0,),
)
KEPT = KeptOut(("conv",), "portable", right=True, reason=None, whole_ms=1.0, parts_ms=1.5, count=3)


def _printed(found: Localized) -> str:
    into = io.StringIO()
    print_localized(Terminal(into=into, width=80), found)
    return into.getvalue()


def test_every_key_is_documented_and_every_number_is_json() -> None:
    document = FOUND.to_json()
    text = json.dumps(document, allow_nan=False)
    assert '"inf"' in text and '"nan"' in text
    row, node, trial = document["operators"][0], document["nodes"][0], document["trials"][0]
    step = asdict(GraphStep("conv", "aten.conv2d.default", "body", "net.py:3", ("conv",), (0,)))
    keys = {*step, *document, *row, *node, *trial, *document["shapes"][0], *KEPT.to_json()}
    assert {key for key in keys if f"`{key}`" not in DOCUMENTED and f'"{key}":' not in DOCUMENTED} == set()
    assert document["sure"] is True and document["culprit"] == "operator"


def test_what_is_printed_names_operator_line_shape_and_bound_in_80_columns() -> None:
    text = _printed(FOUND)
    for part in (
        "conv is wrong",
        "net.py:3",
        "ties: 2",
        "inherited",
        "local",
        "not finite",
        "1 parts lowered of at most 5",
    ):
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 80


def test_what_does_not_repeat_says_how_often_and_is_not_sure() -> None:
    flaky = replace(FOUND, wrong_runs=2)
    assert not flaky.is_sure
    assert "2 of 5 calls are wrong" in _printed(flaky)


def test_two_that_agree_are_one_line() -> None:
    text = _printed(replace(FOUND, culprit=Culprit.NOTHING, reason=None, says="They agree."))
    assert text.splitlines()[-1].endswith("They agree.") and len(text.splitlines()) == 2


def test_a_bar_grows_with_the_error() -> None:
    lengths = [len(bar(error)) for error in (0.0, 1e-7, 1e-4, 1e-1, math.inf)]
    assert lengths == sorted(set(lengths))


def test_operators_that_are_kept_in_float_are_a_table_with_what_they_cost() -> None:
    cost = LayerCost("conv", "aten.conv2d.default", "net.py:3 forward: y", 33.9, math.inf)
    kept = replace(KEPT, drop=0.0, drop_before=0.125, inputs=8, layers=(cost,))
    into = io.StringIO()
    print_kept_out(Terminal(into=into, width=80), "net", "openvino?precision=int8", kept)
    text = " ".join(into.getvalue().split())
    assert "drop 0.00%; 12.50% with all operators quantised (8 inputs)" in text
    assert "conv inf 33.9 net.py:3" in text
    assert json.dumps(kept.to_json(), allow_nan=False)


def test_what_is_kept_out_says_where_and_what_it_costs() -> None:
    into = io.StringIO()
    print_kept_out(Terminal(into=into, width=80), "net", "openvino", KEPT)
    assert "conv on portable" in into.getvalue() and "(+50 %)" in into.getvalue()


def test_a_document_is_read_again_as_it_was() -> None:
    found = Localized.from_json(json.loads(json.dumps(FOUND.to_json())))
    assert math.isnan(found.got[0]) and replace(found, got=()) == replace(FOUND, got=())
