"""Dims: strides of reshaped memory are those that torch finds, or there are none where torch copies."""

from __future__ import annotations

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from atalla.dims import contiguous_strides, equal, memory_order, overlapping, reshaped, simplify, strides_in_order

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(SHAPES, st.randoms(use_true_random=False))
def test_a_view_is_found_exactly_where_torch_finds_one(shape: list[int], random: object) -> None:
    x = torch.arange(torch.Size(shape).numel()).reshape(shape)
    order = list(range(len(shape)))
    random.shuffle(order)
    x = x.permute(order)
    factors = [n for extent in x.shape for n in ([2, 2] if extent == 4 else [extent])]
    wanted: list[int] = []
    for n in factors:
        if wanted and random.random() < 0.4:
            wanted[-1] *= n
        else:
            wanted.append(n)
    strides = reshaped(tuple(x.shape), x.stride(), wanted)
    try:
        view = x.view(wanted)
    except RuntimeError:
        assert strides is None
        return
    assert strides is not None
    assert torch.equal(x.as_strided(wanted, strides), view)


@given(SHAPES, st.randoms(use_true_random=False))
def test_the_order_of_dims_in_memory(shape: list[int], random: object) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)
    strides = strides_in_order(shape, order)
    found = memory_order(shape, strides)
    assert found is not None and sorted(found) == list(range(len(shape)))
    large = [i for i in order if shape[i] > 1]
    assert [i for i in found if shape[i] > 1] == large
    assert memory_order([*shape, 2], [*(2 * s + 1 for s in strides), 1]) is None or max(shape) == 1


def test_gaps_are_not_dense() -> None:
    assert memory_order((2, 3), (4, 1)) is None
    assert memory_order((2, 3), (1, 2)) == (1, 0)
    assert memory_order((1, 3, 1), (99, 1, 7)) == (0, 1, 2)


def test_symbols_are_dims() -> None:
    s = sympy.Symbol("s", integer=True, positive=True)
    assert contiguous_strides((2, s, 3)) == (3 * s, 3, 1)
    assert equal(2 * s + s, 3 * s) and not equal(s, 3) and simplify(s - s + 4) == 4
    assert reshaped((s, 4, 3), contiguous_strides((s, 4, 3)), (s, 12)) == (12, 1)
    assert reshaped((s, 4), (1, s), (4 * s,)) is None


@pytest.mark.parametrize("wanted", [(0, 3), (3, 0), (0,)])
def test_nothing_has_every_shape(wanted: tuple[int, ...]) -> None:
    strides = reshaped((2, 0), (0, 1), wanted)
    assert strides is None or len(strides) == len(wanted)


def test_elements_that_share_memory() -> None:
    assert overlapping((4, 6), (1, 0)) and overlapping((3, 4), (1, 1)) and overlapping((2, 2), (0, 1))
    assert not overlapping((4, 6), (6, 1)) and not overlapping((4, 6), (12, 2)) and not overlapping((1, 6), (0, 1))
    assert not overlapping((0, 6), (0, 0)) and not overlapping((3, 4), (-4, 1))
    assert overlapping((sympy.Symbol("s"), 4), (0, 1))
