"""Verify: what counts as right, and everything that must not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.registry import find_backend, rows
from cross_backend.verify import TOLERANCES, compare_outputs, tolerance_of

REFERENCE = np.linspace(-2, 2, 101, dtype=np.float32).reshape(1, 101)
TOLERANCE = 1e-4


def judge(got: Any, want: Any = REFERENCE, tolerance: float = TOLERANCE) -> Any:
    return compare_outputs([want], [got], tolerance)


def test_equal_outputs_are_right() -> None:
    found = judge(REFERENCE.copy())
    assert (found.verdict, found.reason) == (True, None)
    assert (found.max_abs, found.max_rel, found.sqnr_db) == (0.0, 0.0, math.inf)
    assert found.cosine == pytest.approx(1)


def test_figures_are_those_of_their_formulas() -> None:
    want, got = np.array([3.0, -4.0], np.float32), np.array([3.0, -3.5], np.float32)
    found = judge(got, want, 1.0)
    assert found.max_abs == pytest.approx(0.5)
    assert found.max_rel == pytest.approx(0.5 / 4)
    assert found.sqnr_db == pytest.approx(10 * math.log10(25 / 0.25))
    assert found.cosine == pytest.approx((9 + 14) / (5 * math.hypot(3, 3.5)))


@pytest.mark.parametrize(("share", "verdict"), [(0.5, True), (0.99, True), (1.01, False), (100.0, False)])
@pytest.mark.parametrize("precision", TOLERANCES)
def test_the_tolerance_is_a_share_of_the_largest_output(precision: str, share: float, verdict: bool) -> None:
    tolerance = tolerance_of({"precision": precision})
    want = REFERENCE.astype(np.float64)
    got = want.copy()
    got[0, 50] += share * tolerance * 2  # the element is zero, the largest is 2
    found = judge(got, want, tolerance)
    assert found.verdict is verdict
    assert found.max_rel == pytest.approx(share * tolerance)
    assert (found.reason is None) is verdict


def test_every_precision_that_a_backend_offers_has_its_tolerance() -> None:
    assert tolerance_of({}) == tolerance_of({"threads": 1}) == TOLERANCES["fp32"]
    for name in rows():
        option = find_backend(name).options.get("precision")
        assert option is None or {*option.choices, option.default} <= set(TOLERANCES), name


@given(st.integers(0, 100), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_what_is_not_finite_is_never_right(index: int, value: float) -> None:
    got = REFERENCE.copy()
    got[0, index] = value
    found = judge(got)
    assert not found.verdict
    assert found.reason is not None and "NaN or infinite" in found.reason


def test_all_nan_is_never_right() -> None:
    assert not judge(np.full_like(REFERENCE, np.nan)).verdict


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_in_the_reference_must_be_the_same(value: float) -> None:
    want = np.array([1.0, value], np.float32)
    assert judge(want.copy(), want).verdict
    for other in {np.inf, -np.inf, np.nan, 3.0} - {value}:
        if not (math.isnan(value) and math.isnan(other)):
            assert not judge(np.array([1.0, other], np.float32), want).verdict, f"{other} instead of {value}"


@pytest.mark.parametrize("shape", [(101,), (101, 1), (1, 100), (1, 101, 1), (0,), ()])
def test_a_wrong_shape_is_wrong(shape: tuple[int, ...]) -> None:
    found = judge(np.resize(REFERENCE, shape))
    assert not found.verdict
    assert found.reason == f"output 0 has shape {list(shape)} instead of [1, 101]"


@pytest.mark.parametrize(
    ("want", "got"),
    [("float32", "float64"), ("float32", "float16"), ("float32", "int64"), ("int64", "float32"), ("int64", "int32"),
     ("bool", "int64"), ("bool", "float32"), ("int32", "bool")],
)  # fmt: skip
def test_a_wrong_dtype_is_wrong(want: str, got: str) -> None:
    """The artifact promises a dtype: equal numbers of another one are not what it promised."""
    found = judge(np.array([0, 1, 1]).astype(got), np.array([0, 1, 1]).astype(want))
    assert not found.verdict
    assert found.reason is not None and want in found.reason and got in found.reason


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_is_wrong(count: int) -> None:
    found = compare_outputs([REFERENCE] * 2, [REFERENCE] * count, TOLERANCE)
    assert not found.verdict
    assert found.reason == f"gives {count} output(s) instead of 2"


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_integers_and_booleans_must_be_equal(dtype: str) -> None:
    want = np.array([0, 1, 1, 0]).astype(dtype)
    assert judge(want.copy(), want).verdict
    got = want.copy()
    got[0] = 1
    found = judge(got, want, tolerance=0.5)
    assert not found.verdict
    assert found.reason == "output 0 differs in 1 of 4 elements"


def test_every_output_counts() -> None:
    labels = np.array([1, 2])
    assert compare_outputs([REFERENCE, labels], [REFERENCE, labels], TOLERANCE).verdict
    for wrong in ([REFERENCE, labels + 1], [REFERENCE * 1.1, labels], [labels, REFERENCE]):
        assert not compare_outputs([REFERENCE, labels], wrong, TOLERANCE).verdict


def test_a_small_output_is_not_hidden_by_a_large_one() -> None:
    small = REFERENCE * np.float32(1e-3)
    found = compare_outputs([REFERENCE * 1000, small], [REFERENCE * 1000, small * np.float32(1.01)], TOLERANCE)
    assert not found.verdict
    assert found.max_rel == pytest.approx(0.01, rel=1e-3)


def test_a_reference_of_zeros_takes_zeros_only() -> None:
    zeros = np.zeros(4, np.float32)
    found = judge(zeros.copy(), zeros)
    assert (found.verdict, found.max_rel, found.cosine) == (True, 0.0, 1.0)
    wrong = judge(np.full(4, 1e-30, np.float32), zeros)
    assert (wrong.verdict, wrong.max_rel, wrong.sqnr_db) == (False, math.inf, -math.inf)


def test_zeros_are_never_right_for_something() -> None:
    found = judge(np.zeros_like(REFERENCE))
    assert (found.verdict, found.max_rel) == (False, 1.0)
    assert found.sqnr_db == pytest.approx(0)


def test_no_elements_and_no_outputs_are_right() -> None:
    assert compare_outputs([], [], TOLERANCE).verdict
    assert judge(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).verdict


@given(st.floats(1e-6, 1e6), st.floats(-0.5, 0.5))
def test_the_verdict_does_not_depend_on_the_scale(scale: float, error: float) -> None:
    want = REFERENCE.astype(np.float64)
    got = want + error * TOLERANCE
    assert judge(got * scale, want * scale).verdict is judge(got, want).verdict
    assert judge(got * scale, want * scale).max_rel == pytest.approx(judge(got, want).max_rel, rel=1e-6, abs=1e-15)
