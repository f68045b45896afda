"""Frames: tensors as the bytes that a page reads and writes."""

from __future__ import annotations

import numpy as np
import pytest

from cross_backend.browser.frames import pack, unpack
from cross_backend.errors import RunError, UnsupportedError
from cross_backend.tensors import dtype_of


def test_every_kind_comes_back_as_it_was() -> None:
    kinds = ("bool", "float16", "float32", "float64", "int8", "int64", "uint8", "uint16", "uint64")
    arrays = [np.arange(-3, 4).astype(kind) for kind in kinds]
    arrays += [np.float32(3.5).reshape(()), np.zeros((2, 0, 3), "int32"), np.arange(6.0).reshape(2, 3)]
    found = unpack(pack(arrays))
    assert [(a.dtype, a.shape) for a in found] == [(a.dtype, a.shape) for a in arrays]
    assert all(np.array_equal(a, b) for a, b in zip(found, arrays, strict=True))


def test_each_part_begins_at_a_multiple_of_eight() -> None:
    """Arrays of JavaScript begin nowhere else."""
    one = np.full(3, 7, "uint8")
    frame = pack([one, one])
    assert len(frame) % 8 == 0
    assert [at % 8 for at in (frame.index(b"\x07\x07\x07"), frame.rindex(b"\x07\x07\x07"))] == [0, 0]


def test_what_javascript_has_no_arrays_for_is_said() -> None:
    for kind in ("complex64", "bfloat16"):
        with pytest.raises(UnsupportedError, match=f"no arrays of {kind}"):
            pack([np.zeros(2, dtype_of(kind))])


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        b'\x2c\x00\x00\x00[{"type": "float32", "dims": [9], "size": 4}]',
        b'\x2a\x00\x00\x00[{"type": "object", "dims": [1], "size": 8}] ' + bytes(16),
    ],
)
def test_what_is_no_frame_is_an_error_of_ours(frame: bytes) -> None:
    with pytest.raises(RunError, match="something else than tensors"):
        unpack(frame)
