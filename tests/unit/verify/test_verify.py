"""Verify: what counts as right, what must not, and what proves nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.records import Comparison, Outcome
from cross_backend.registry import find_backend, rows
from cross_backend.tensors import dtype_of
from cross_backend.verify.compare import PRECISIONS, compare_outputs, precision_of, tolerance_of, tolerances_of
from cross_backend.verify.deviation import deviation, scale_of

RNG = np.random.default_rng(0)
REFERENCE = RNG.standard_normal((2, 64)).astype(np.float32)
SECOND = RNG.standard_normal((2, 64)).astype(np.float32)
ROUNDING = 6.25e-6
"""Of the samples here: 1e-4 is allowed in float32."""


def sample(*expected: Any, second: tuple[Any, ...] | None = None, rounding: float | None = ROUNDING) -> dict[str, Any]:
    groups: dict[str, Any] = {"input": [], "expected": expected}
    if second is not None:
        groups |= {"input2": [], "expected2": second}
        groups["scale"] = [scale_of(a, b) for a, b in zip(expected, second, strict=True)]
    return groups if rounding is None else groups | {"rounding": [np.array(rounding)]}


def judge(got: Any, want: Any = REFERENCE, precision: str = "fp32") -> Comparison:
    return compare_outputs(sample(want), [[got]], precision)


def judge_two(got: Any, got2: Any, want: Any = REFERENCE, want2: Any = SECOND, precision: str = "fp32") -> Comparison:
    return compare_outputs(sample(want, second=(want2,)), [[got], [got2]], precision)


def test_equal_outputs_are_right() -> None:
    found = judge_two(REFERENCE.copy(), SECOND.copy())
    assert (found.verdict, found.reason, found.unproved, found.outcome) == (True, None, None, Outcome.OK)
    assert (found.max_abs, found.max_rel, found.sqnr_db) == (0.0, 0.0, math.inf)
    assert found.cosine == pytest.approx(1)


def test_figures_are_those_of_their_formulas() -> None:
    want, got = np.array([3.0, -4.0], np.float32), np.array([3.0, -3.5], np.float32)
    found = judge(got, want, "int8")
    assert found.max_abs == pytest.approx(0.5)
    assert found.max_rel == pytest.approx(0.5 / (4 + 3.75), abs=1e-6)  # 3.75 is the 75 % quantile of 3 and 4
    assert found.sqnr_db == pytest.approx(10 * math.log10(25 / 0.25))
    assert found.cosine == pytest.approx((9 + 14) / (5 * math.hypot(3, 3.5)))


@pytest.mark.parametrize(("share", "verdict"), [(0.5, True), (0.99, True), (1.01, False), (100.0, False)])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_one_element_may_be_off_by_the_tolerance(precision: str, share: float, verdict: bool) -> None:
    tolerance = tolerance_of(precision, ROUNDING)
    want = np.zeros((1000, 8))
    want[:, 1:] = 1.0
    got = want.copy()
    got[0, 0] += share * tolerance
    found = judge(got, want, precision)
    assert found.verdict is verdict
    assert found.max_rel == pytest.approx(share * tolerance)
    assert (found.reason is None) is verdict


def test_int8_is_judged_by_the_mean_too() -> None:
    """Its single errors are large, so a network that is wrong everywhere must not pass by having none above 1."""
    noise = np.where(RNG.random(REFERENCE.shape) < 0.5, -1, 1) * (np.abs(REFERENCE) + scale_of(REFERENCE, None))
    assert judge((REFERENCE + 0.35 * noise).astype(np.float32), precision="int8").verdict
    found = judge((REFERENCE + 0.45 * noise).astype(np.float32), precision="int8")
    assert not found.verdict
    assert "root mean square" in str(found.reason)
    assert tolerances_of({}, {"precision": "int8"})["mean_tolerance"] == PRECISIONS["int8"].mean


def test_every_precision_that_a_backend_offers_has_its_tolerance() -> None:
    assert precision_of({}) == precision_of({"threads": 1}) == "fp32"
    for name in rows():
        option = find_backend(name).options.get("precision")
        assert option is None or {*option.choices, option.default} <= set(PRECISIONS), name


def test_the_tolerance_follows_the_rounding_of_the_program_within_limits() -> None:
    assert tolerance_of("fp32", 1e-6) == pytest.approx(1.2e-5)
    assert tolerance_of("fp32", 0.0) == PRECISIONS["fp32"].least
    assert tolerance_of("fp32", 4e-3) == PRECISIONS["fp32"].most
    assert tolerance_of("fp32", 1.0) == 2.0, "what rounding does to a program is no fault of its target"
    for rounding in (1e-8, 1e-6, 1e-4):
        found = [tolerance_of(precision, rounding) for precision in ("fp32", "fp16", "bf16")]
        assert found == sorted(found)


# --- what hid errors once ------------------------------------------------------------------------------------------


def test_one_masked_logit_does_not_hide_another_network() -> None:
    """With the largest magnitude as the scale, the outputs of other random weights had an error of 3.6e-10."""
    want, want2, other = REFERENCE.copy(), SECOND.copy(), RNG.standard_normal(REFERENCE.shape).astype(np.float32)
    for array in (want, want2, other):
        array[0, 3] = -1e9
    assert judge_two(want.copy(), want2.copy(), want, want2).verdict
    assert not judge_two(other, want2, want, want2).verdict
    assert not judge(other, want).verdict


@pytest.mark.parametrize("masked", [0.5, 0.7])
def test_a_mask_over_most_elements_does_not_hide_an_error_in_the_others(masked: float) -> None:
    mask = RNG.random(REFERENCE.shape) < masked
    want, want2 = np.where(mask, np.float32(-1e9), REFERENCE), np.where(mask, np.float32(-1e9), SECOND)
    got = want.copy()
    got[~mask] *= np.float32(1.01)
    assert judge_two(want.copy(), want2.copy(), want, want2).verdict
    assert not judge_two(got, want2, want, want2).verdict


def test_one_huge_element_sets_no_scale_but_its_own() -> None:
    want, want2 = REFERENCE.copy(), SECOND.copy()
    want[0, 0], want2[0, 0] = 1e12, -1e12
    got = want.copy()
    got[1, 5] += 0.01
    assert not judge_two(got, want2.copy(), want, want2).verdict


def test_a_causal_mask_does_not_hide_the_first_row() -> None:
    shape = (32, 32)
    scores, scores2 = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal(shape).astype(np.float32)
    mask = np.triu(np.ones(shape, bool), 1)
    want, want2 = np.where(mask, np.float32(-1e9), scores), np.where(mask, np.float32(-1e9), scores2)
    got = want.copy()
    got[0, 0] += 0.01
    assert not judge_two(got, want2.copy(), want, want2).verdict


def test_rows_of_unlike_magnitude_have_scales_of_their_own() -> None:
    """Boxes in pixels beside scores: the rounding of a box near zero is that of pixels."""
    want, want2 = (RNG.random((84, 100)).astype(np.float32) for _ in range(2))
    want[:4] *= 640
    want2[:4] *= 640
    want[0, 0] = 0.0
    got = want.copy()
    got[0, 0] += 640 * 2e-5
    assert judge_two(got, want2.copy(), want, want2).verdict
    got[50, 50] += 640 * 2e-5
    assert not judge_two(got, want2.copy(), want, want2).verdict


def test_complex_numbers_are_compared_as_such() -> None:
    """x + 7i passed for x + i."""
    want, want2 = (REFERENCE + 1j).astype(np.complex64), (SECOND + 1j).astype(np.complex64)
    assert judge_two(want.copy(), want2.copy(), want, want2).verdict
    assert not judge((REFERENCE + 7j).astype(np.complex64), want).verdict
    assert not judge(np.conj(want), want).verdict
    assert not judge(REFERENCE, want).verdict
    found = judge((want * np.exp(0.5j)).astype(np.complex64), want, "int8")
    assert found.max_rel > 0.1


def test_what_is_wrong_only_on_the_second_input_is_wrong() -> None:
    """A program with its first answer baked in, say."""
    found = judge_two(REFERENCE.copy(), REFERENCE.copy())
    assert (found.verdict, found.outcome) == (False, Outcome.MISMATCH)
    found = judge_two(REFERENCE.copy(), SECOND[:1])
    assert found.reason == "output 0 for the second input has shape [1, 64] instead of [2, 64]"


# --- what proves nothing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("want", "second", "why"),
    [
        (np.zeros((0, 3), np.float32), None, "its outputs are empty"),
        (np.full(4, np.nan, np.float32), None, "its outputs are all NaN or infinite"),
        (np.full(4, np.inf, np.float32), np.full(4, np.inf, np.float32), "its outputs are all NaN or infinite"),
        (np.ones(4, np.float32), np.ones(4, np.float32), "its outputs are the same for two different inputs"),
        (np.array([3]), np.array([3]), "its outputs are the same for two different inputs"),
    ],
)
def test_equal_outputs_that_prove_nothing(want: Any, second: Any, why: str) -> None:
    groups = sample(want, second=None if second is None else (second,))
    found = compare_outputs(groups, [[want.copy()], *([] if second is None else [[second.copy()]])])
    assert (found.verdict, found.unproved, found.outcome) == (True, why, Outcome.NOT_PROVED)
    assert found.why == f"not proved, because {why}"
    assert found.to_json()["unproved"] == why


@pytest.mark.parametrize(("rounding", "unproved"), [(1e-7, False), (1e-3, True), (None, True)])
def test_what_moves_by_less_than_a_thousandth_proves_something_where_rounding_is_smaller(
    rounding: float | None, unproved: bool
) -> None:
    want, want2 = (1000 + 0.1 * values for values in (REFERENCE, SECOND))
    found = compare_outputs(sample(want, second=(want2,), rounding=rounding), [[want], [want2]])
    assert (found.outcome is Outcome.NOT_PROVED) is unproved
    baked_in = compare_outputs(sample(want, second=(want2,), rounding=rounding), [[want], [want]])
    assert baked_in.verdict is unproved, "what proves something tells a program that ignores its input"


def test_one_output_that_moves_proves_something() -> None:
    anchors = np.arange(6, dtype=np.float32)
    groups = sample(anchors, REFERENCE, second=(anchors, SECOND))
    assert compare_outputs(groups, [[anchors, REFERENCE], [anchors, SECOND]]).outcome is Outcome.OK
    assert compare_outputs(sample(), [[]]).outcome is Outcome.NOT_PROVED


def test_wrong_outputs_are_wrong_even_where_right_ones_would_prove_nothing() -> None:
    ones = np.ones(4, np.float32)
    assert judge_two(ones * 2, ones * 2, ones, ones).outcome is Outcome.MISMATCH


def test_a_deviation_of_equal_infinities_is_none() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0])
    assert not deviation(values, values.copy(), np.zeros(4)).any()
    assert deviation(np.zeros(1), np.full(1, 1e-300), np.zeros(1)) == np.inf


@given(st.integers(0, 63), st.sampled_from([np.nan, np.inf, -np.inf]))
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


@pytest.mark.parametrize("shape", [(64,), (64, 2), (1, 64), (2, 64, 1), (0,), ()])
def test_a_wrong_shape_is_wrong(shape: tuple[int, ...]) -> None:
    found = judge(np.resize(REFERENCE, shape))
    assert not found.verdict
    assert found.reason == f"output 0 has shape {list(shape)} instead of [2, 64]"


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
    found = compare_outputs(sample(REFERENCE, REFERENCE), [[REFERENCE] * count])
    assert not found.verdict
    assert found.reason == f"returns {count} output(s) instead of 2"


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_integers_and_booleans_must_be_equal(dtype: str) -> None:
    want = np.array([0, 1, 1, 0]).astype(dtype)
    assert judge(want.copy(), want).verdict
    got = want.copy()
    got[0] = 1
    found = judge(got, want, "int8")
    assert not found.verdict
    assert found.reason == "output 0 differs in 1 of 4 elements"


def test_every_output_counts() -> None:
    labels = np.array([1, 2])
    assert compare_outputs(sample(REFERENCE, labels), [[REFERENCE, labels]]).verdict
    for wrong in ([REFERENCE, labels + 1], [REFERENCE * 1.1, labels], [labels, REFERENCE]):
        assert not compare_outputs(sample(REFERENCE, labels), [wrong]).verdict


def test_a_small_output_is_not_hidden_by_a_large_one() -> None:
    small = REFERENCE * np.float32(1e-3)
    found = compare_outputs(sample(REFERENCE * 1000, small), [[REFERENCE * 1000, small * np.float32(1.01)]])
    assert not found.verdict


def test_a_reference_of_zeros_takes_zeros_only() -> None:
    zeros = np.zeros(4, np.float32)
    found = judge(zeros.copy(), zeros)
    assert (found.verdict, found.max_rel, found.cosine) == (True, 0.0, 1.0)
    wrong = judge(np.full(4, 1e-30, np.float32), zeros)
    assert (wrong.verdict, wrong.max_rel, wrong.sqnr_db) == (False, math.inf, -math.inf)


def test_an_error_whose_square_is_no_number_is_wrong() -> None:
    found = judge(np.full(4, 1e200), REFERENCE.astype(np.float64).reshape(-1)[:4])
    assert (found.verdict, found.sqnr_db) == (False, -math.inf)


def test_zeros_are_never_right_for_something() -> None:
    found = judge(np.zeros_like(REFERENCE))
    assert not found.verdict
    assert found.sqnr_db == pytest.approx(0)


@given(st.floats(1e-6, 1e6), st.floats(-0.5, 0.5))
def test_the_verdict_does_not_depend_on_the_scale(scale: float, error: float) -> None:
    want = REFERENCE.astype(np.float64)
    got = want + error * 1e-4
    assert judge(got * scale, want * scale).verdict is judge(got, want).verdict
    assert judge(got * scale, want * scale).max_rel == pytest.approx(judge(got, want).max_rel, rel=1e-6, abs=1e-14)


def test_the_worst_element_is_named_with_what_rounding_does() -> None:
    """Of three that are off the largest, behind an element that is infinite in both."""
    want = np.array([[np.inf, 1], [1, 1], [1, 1]], np.float32)
    got = want + np.array([[0, 1e-4], [0, 1e-2], [1e-3, 0]], np.float32)
    sample = {"expected": [want], "scale": [np.zeros((3, 2), np.float32)], "rounding": [np.array(1e-6)]}
    found = compare_outputs(sample, [[got]])
    rounding = "1e+04 × the unavoidable rounding, 12 × is allowed"
    assert found.reason == f"output 0 deviates by 0.01 of its scale at [1, 1]; {rounding}"
    del sample["rounding"]
    assert str(compare_outputs(sample, [[got]]).reason).endswith("at [1, 1]; 0.0007 is allowed")


@pytest.mark.parametrize(("name", "steps", "verdict"), [
    ("bfloat16", 0, True), ("bfloat16", 2, True), ("bfloat16", 16, False),
    ("float16", 2, True), ("float16", 64, False),
])  # fmt: skip
def test_outputs_of_16_bits_are_compared_in_float64_and_by_their_own_rounding(
    name: str, steps: int, verdict: bool
) -> None:
    """Of a test case that somebody else made nothing is known but its type."""
    want = REFERENCE.astype(dtype_of(name))
    got = (want.view(np.uint16) + np.uint16(steps)).view(want.dtype)
    found = compare_outputs(sample(want, second=None, rounding=None), [[got]])
    off = np.abs(want.astype(np.float64) - got.astype(np.float64))
    assert found.verdict is verdict, found.reason
    assert found.max_abs == pytest.approx(off.max(), rel=1e-12)


def test_another_type_than_bfloat16_is_wrong_whatever_its_numbers() -> None:
    want = REFERENCE.astype(dtype_of("bfloat16"))
    assert judge(want.astype(np.float32), want).reason == "output 0 has type float32 instead of bfloat16"
    with_nan = want.copy()
    with_nan[0, 3] = np.nan
    assert "1 NaN or infinite" in str(judge(with_nan, want).reason)
    assert judge(with_nan, with_nan.copy()).verdict
