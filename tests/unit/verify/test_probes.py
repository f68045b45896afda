"""Probes: of the sample's shapes and types, with both signs, ties, thresholds, outer rows, masks of all and one."""

from __future__ import annotations

import numpy as np
import pytest

from cross_backend.verify.further import PROBE, KnownInput, further_groups, further_of
from cross_backend.verify.narrow import narrow_of
from cross_backend.verify.probes import Hint, ProbeInput, is_within, probes_of, resized, tamed


def made(*inputs: np.ndarray, hints: tuple[Hint, ...] = ()) -> dict[str, tuple[np.ndarray, ...]]:
    found = list(probes_of(inputs, hints or tuple(Hint() for _ in inputs)))
    for probe in found:
        assert [(x.shape, x.dtype) for x in probe.inputs] == [(x.shape, x.dtype) for x in inputs], probe.name
    return {probe.name: probe.inputs for probe in found}


@pytest.mark.parametrize("sample", [np.ones((2, 64)), np.full((2, 64), 3.0), np.random.default_rng(0).random((2, 64))])
def test_floats_get_both_signs_other_sizes_and_ties(sample: np.ndarray) -> None:
    probes = made(sample.astype(np.float32))
    first = probes["both signs"][0]
    assert (first < 0).any() and (first > 0).any() and len(np.unique(first)) > 50
    assert (np.abs(first * 8 % 1) == 0).sum() > 10, "ties of rounding"
    assert (probes["negative"][0] < 0).all()
    assert (probes["large and positive"][0] > 0).all() and probes["large"][0].max() > 8 * np.abs(sample).max()
    assert np.abs(probes["small"][0]).max() < np.abs(sample).max() and not probes["zeros"][0].any()


def test_sums_above_a_far_threshold_are_reached() -> None:
    found = made(np.full((1, 8), 0.25, np.float32))
    assert found["large and positive"][0].sum() < 30 < found["larger and positive"][0].sum()
    assert found["larger and negative"][0].sum() < -30


def test_a_probe_beyond_float16_warns_of_nothing() -> None:
    assert np.isinf(made(np.full((1, 8), 3e3, np.float16))["larger and positive"][0]).any()


def test_thresholds_are_met_and_passed_on_both_sides() -> None:
    hint = Hint(thresholds=(6.0, -0.5))
    found = made(np.ones((8, 64), np.float32), hints=(hint,))["thresholds"][0]
    for one in hint.thresholds:
        near = found[np.abs(found - one) <= abs(one) * 2**-9 + 2**-9]
        assert (near == one).any() and (near < one).any() and (near > one).any(), one


def test_indices_reach_the_first_and_the_last_row() -> None:
    probes = made(np.array([[1, 2, 3]]), hints=(Hint(rows=50),))
    assert {0, 49} <= set(probes["both signs"][0].ravel().tolist())
    assert (probes["first of each"][0] == 0).all() and (probes["last of each"][0] == 49).all()


def test_whole_numbers_of_unknown_meaning_stay_among_the_samples() -> None:
    for (found,) in made(np.array([3, 7, 9])).values():
        assert set(found.tolist()) <= {3, 7, 9}


def test_masks_of_all_of_none_and_of_one() -> None:
    probes = made(np.ones((3, 6), bool))
    assert not probes["last of each"][0].any() and (probes["mask of one"][0].sum(-1) == 1).all()
    assert probes["both signs"][0].any() and not probes["both signs"][0].all()


def test_what_is_not_finite_and_what_is_empty_stays() -> None:
    mask = np.array([0.0, -np.inf], np.float32)
    probes = made(mask, np.zeros((0, 4), np.float32), np.ones(4, np.float32))
    assert all(
        np.array_equal(found[0], mask) or np.isinf(found[0]).any() or found[0].max() == 0 for found in probes.values()
    )


def test_probes_are_the_same_each_time() -> None:
    first, second = (made(np.ones((4, 4), np.float32)) for _ in range(2))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name][0], second[name][0]) for name in first)


def test_a_smaller_probe_has_the_same_signs_and_indices() -> None:
    first = ProbeInput("both signs", (np.array([-2.0, 4.0], np.float32), np.array([7])))
    (found,) = tamed(first)
    assert found.name == "both signs, smaller"
    assert [x.tolist() for x in found.inputs] == [[-0.5, 1.0], [7]]
    assert not list(tamed(ProbeInput("last of each", (np.array([7]),)))), "there is none of whole numbers alone"


def test_known_inputs_are_kept_with_all_that_they_are_judged_by() -> None:
    x = np.ones((1, 2), np.float32)
    rows = [
        KnownInput("plain", [x], [x]),
        KnownInput("full", [x], [2 * x], 1e-6, [3 * x], {"fp16": np.inf, "bf16": 0.1}),
    ]
    found = list(further_of(PROBE, further_groups(PROBE, rows)))
    assert [one.name for one in found] == ["plain", "full"]
    assert [one.rounding for one in found] == [0.0, 1e-6]
    assert (len(found[0].scale), found[0].narrow) == (0, {})
    assert narrow_of([np.array(1.5)]) == {"fp16": 1.5} and narrow_of([np.array([-1.0, np.nan])]) == {}
    assert narrow_of([np.array([True])]) == {}, "files may be a stranger's"
    assert found[1].narrow == rows[1].narrow and np.array_equal(found[1].scale[0], 3 * x)


def test_other_extents_repeat_or_cut() -> None:
    (found,) = resized([np.arange(6.0).reshape(2, 3)], [(3, 2)])
    assert found.tolist() == [[0, 1], [3, 4], [0, 1]]
    assert resized([np.array(2.5)], [()])[0].shape == (), "a scalar has no dimensions"


def test_within_is_the_range_of_the_sample() -> None:
    sample = [np.array([-1.0, 2.0], np.float32), np.array([5])]
    assert is_within([np.array([0.0, 2.0], np.float32), np.array([9])], sample)
    assert not is_within([np.array([-1.5, 0.0], np.float32), np.array([5])], sample)
