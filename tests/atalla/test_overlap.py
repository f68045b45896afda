"""Overlap of views, and the fusion that depends on it."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from atalla import ir
from atalla.isa import Dtype, Op
from atalla.passes.fuse.place import into_place
from atalla.passes.overlap import overlap

BOXES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=3)


def view(storage: ir.Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> ir.Tensor:
    return storage.view(shape, strides, offset)


def places(tensor: ir.Tensor) -> set[int]:
    """Give the elements of the storage that a view has, one by one."""
    indices = itertools.product(*(range(int(extent)) for extent in tensor.shape))
    return {
        int(tensor.offset) + sum(i * int(s) for i, s in zip(index, tensor.strides, strict=True)) for index in indices
    }


@given(BOXES, st.integers(0, 40))
def test_overlap_is_what_counting_finds(boxes: list[tuple[int, int, int]], offset: int) -> None:
    """A stride of 0 may be taken for an overlap where there is none; what overlaps is never missed."""
    storage = ir.new_storage("storage", Dtype.F32, (1000,))
    strides = tuple(box[0] for box in boxes)
    a = view(storage, tuple(box[1] for box in boxes), strides, 0)
    b = view(storage, tuple(box[2] for box in boxes), strides, offset)
    shared = bool(places(a) & places(b))
    assert overlap(a, b) == overlap(b, a) >= shared
    if all(strides):
        assert overlap(a, b) == shared


def test_views_of_other_storages_and_strides() -> None:
    storage, other = ir.new_storage("one", Dtype.F32, (4, 6)), ir.new_storage("other", Dtype.F32, (4, 6))
    assert not overlap(storage, other)
    assert overlap(storage, view(storage, (6, 4), (1, 6), 0))  # other strides are not looked into


def test_a_copy_stays_where_its_place_is_filled_in_between() -> None:
    """As a frame around an image is: the image is made, all is filled, the image is copied into the middle."""
    x, made = ir.new_storage("x", Dtype.F32, (4, 4)), ir.new_storage("made", Dtype.F32, (4, 4))
    framed = ir.new_storage("framed", Dtype.F32, (6, 6))
    middle = view(framed, (4, 4), (6, 1), 7)
    assert overlap(framed, middle)
    twice = ir.Instruction(Op.EW, made, (x,), {"steps": ()})
    fill = ir.Instruction(Op.FILL, framed)
    copy = ir.Instruction(Op.COPY, middle, (made,))
    program = ir.Program(inputs=[x], outputs=[framed], instructions=[twice, fill, copy])
    into_place(program)
    assert program.instructions == [twice, fill, copy]
    program.instructions = [fill, twice, copy]
    into_place(program)
    assert program.instructions == [fill, twice] and places(twice.dst) == places(middle)
