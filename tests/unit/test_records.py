"""Records: rows that JSON can hold, and the one document of a comparison."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.machine import Machine
from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.records import SCHEMA, Comparison, Outcome, Panel, Result, document, finite
from cross_backend.serialization import from_json

GOOD = Comparison(1e-6, 1e-6, 120.0, 1.0, 1e-4, verdict=True)
WRONG = Comparison(math.nan, math.nan, math.nan, math.nan, 1e-4, verdict=False, reason="output 0 has shape [1]")
RESULT = Result("net", "null", "Null", Outcome.OK)
MEASURED = replace(
    RESULT,
    rank=1,
    latency=Measurement("latency", "ns", ((1, 2), (), (3,))),
    latency_ms=Interval(2e-6, 1e-6, 3e-6),
    mean_ms=2e-6,
    comparison=GOOD,
    placement=Placement({}, (Operators("a", 1),)),
    task={"top-1 accuracy": 0.9},
    warnings=("load",),
)


def test_samples_keep_their_order() -> None:
    assert Measurement("latency", "ns", ((3, 1), (), (2,))).values == (3, 1, 2)


def test_measurements_are_equal_by_their_samples() -> None:
    one = Measurement("latency", "ns", ((1, 2), ()))
    same = Measurement("latency", "ns", (array("q", [1, 2]), []))
    assert one == same and hash(one) == hash(same)
    assert one != Measurement("latency", "ns", ((1,), (2,)))
    assert one != Measurement("latency", "B", ((1, 2), ())) and one != "latency"


@pytest.mark.parametrize(("value", "kept"), [(1.5, 1.5), (math.inf, None), (-math.inf, None), (math.nan, None)])
def test_json_holds_finite_numbers_only(value: float, kept: float | None) -> None:
    assert finite(value) == kept


@given(st.floats(0, 1), st.floats(0, 1), st.floats(-200, 200), st.floats(-1, 1), st.booleans())
def test_a_comparison_survives_json(max_abs: float, max_rel: float, sqnr: float, cosine: float, verdict: bool) -> None:
    comparison = Comparison(max_abs, max_rel, sqnr, cosine, 1e-4, verdict, None if verdict else "why")
    assert from_json(Comparison, json.loads(json.dumps(comparison.to_json(), allow_nan=False))) == comparison


def test_the_document_has_null_for_what_json_lacks() -> None:
    equal = replace(GOOD, max_abs=0.0, max_rel=0.0, sqnr_db=math.inf)
    assert equal.to_json() == {**asdict(equal), "sqnr_db": None}
    numbers = dict.fromkeys(("max_abs", "max_rel", "sqnr_db", "cosine"))
    assert WRONG.to_json() == {**asdict(WRONG), **numbers}


def test_a_result_has_the_keys_that_scripts_rely_on() -> None:
    row = json.loads(json.dumps(MEASURED.to_json(), allow_nan=False))
    assert {
        "workload", "target", "outcome", "rank", "latency_ms", "error", "coverage", "size_bytes", "export_s", "reason",
    } <= set(row)  # fmt: skip
    assert row["latency_ms"] == {"median": 2e-6, "low": 1e-6, "high": 3e-6, "mean": 2e-6, "n": 3}
    assert {"max_abs", "max_rel", "sqnr_db", "verdict"} <= set(row["error"])
    assert (row["outcome"], row["coverage"], row["task"], row["warnings"]) == (
        "OK", 1.0, {"top-1 accuracy": 0.9}, ["load"],
    )  # fmt: skip


def test_a_ratio_to_the_leader_is_an_interval_or_null() -> None:
    row = replace(MEASURED, ratio=Interval(1.15, 1.12, 1.18)).to_json()
    assert row["ratio"] == {"value": 1.15, "low": 1.12, "high": 1.18}
    assert replace(MEASURED, ratio=Interval(2.0, 0.0, math.inf)).to_json()["ratio"]["high"] is None
    assert RESULT.to_json()["ratio"] is None


def test_absent_values_are_null() -> None:
    row = RESULT.to_json()
    absent = (
        "rank",
        "latency_ms",
        "error",
        "coverage",
        "placement",
        "size_bytes",
        "export_s",
        "load_s",
        "task",
        "reason",
    )
    assert all(row[key] is None for key in absent)


def test_ranked_results_come_fastest_first(machine: Machine) -> None:
    rows = [
        replace(MEASURED, target="slow", rank=3, latency_ms=Interval(3, 3, 3)),
        replace(RESULT, target="failed", outcome=Outcome.RUN_FAIL),
        replace(MEASURED, target="tied", rank=1, latency_ms=Interval(1.1, 1, 2)),
        replace(MEASURED, target="fast", rank=1, latency_ms=Interval(1.0, 1, 2)),
        replace(RESULT, target="not measured", rank=2),
    ]
    panel = Panel("net", tuple(rows), 0.02, {}, machine)
    assert [result.target for result in panel.ranked] == ["fast", "tied", "slow"]
    ratios = {"tied": Interval(1.0, 1.0, 1.0), "fast": Interval(1.01, 0.9, 1.1)}
    told = [replace(row, ratio=ratios.get(row.target)) for row in rows]
    assert [result.target for result in replace(panel, results=tuple(told)).ranked] == ["tied", "fast", "slow"], (
        "what they differ by where both were measured, not medians that may be of different minutes"
    )


def test_the_document_is_one_for_several_panels(machine: Machine) -> None:
    first = Panel("a", (replace(MEASURED, workload="a"),), 0.02, {"threads": 1}, machine, found_from=0.05)
    second = Panel("b", (replace(RESULT, workload="b"),), None, {"threads": 1}, machine, interrupted=True)
    third = Panel("c", (), 0.05, {"threads": 1}, machine)
    found = json.loads(json.dumps(document([first, second, third], machine), allow_nan=False))
    assert found["schema"] == 2
    assert found["machine"]["digest"] == machine.digest
    assert (found["noise_floor"], found["interrupted"], found["settings"]) == (0.05, True, {"threads": 1})
    assert [(row["workload"], row["noise_floor"]) for row in found["results"]] == [("a", 0.02), ("b", None)]
    assert [(row["workload"], row["found_from"]) for row in found["panels"]] == [("a", 0.05), ("b", None), ("c", None)]
    assert [(row["launches"], row["interrupted"]) for row in found["panels"]] == [(1, False), (1, True), (1, False)]


def test_an_empty_document_is_valid(machine: Machine) -> None:
    found = document([], machine)
    assert (found["noise_floor"], found["interrupted"], found["results"]) == (None, False, [])


def test_the_page_about_the_document_names_every_key(machine: Machine) -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    found = document([Panel("a", (MEASURED,), 0.02, {}, machine)], machine)
    keys = {*found, *found["panels"][0], *found["results"][0], *found["results"][0]["latency_ms"]}
    assert {key for key in keys if f'"{key}":' not in page} == set()
    assert f'"schema": {SCHEMA},' in page and f"| {SCHEMA} |" in page
