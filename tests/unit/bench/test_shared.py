"""Shared: what one side writes the other reads, whatever grows; what is no tensor of numbers is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cross_backend.bench.shared import Handed, Reader, Span, Writer
from cross_backend.errors import RunError
from cross_backend.tensors import dtype_of


def test_tensors_of_every_kind_arrive_as_they_were(tmp_path: Path) -> None:
    given = [
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.array(7, np.int64),
        np.zeros((0, 4), np.float16),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
        np.array([[1.5], [-2.0]], dtype_of("bfloat16")),
        np.arange(5, dtype=np.uint8),
    ]
    found = Reader().take(Writer(tmp_path, "given").hand(given))
    for one, two in zip(given, found, strict=True):
        assert (one.dtype, one.shape, one.tolist()) == (two.dtype, two.shape, two.tolist())


def test_the_next_tensors_lie_in_the_same_file_until_they_are_longer(tmp_path: Path) -> None:
    writer, reader = Writer(tmp_path, "given"), Reader()
    first, second = writer.hand([np.zeros(5)]), writer.hand([np.ones(7)])
    assert first.file == second.file and reader.take(second)[0].tolist() == [1.0] * 7
    third = writer.hand([np.full(1 << 20, 2.0)])
    assert third.file != second.file and (reader.take(third)[0] == 2).all()
    assert [one.name for one in tmp_path.iterdir()] == [third.file.name]


@pytest.mark.parametrize(
    "place",
    [
        Span("|O", (1,), 0),
        Span("nonsense", (1,), 0),
        Span("<f8", (1 << 40,), 0),
        Span("<f8", (1,), 1 << 40),
        Span("<f8", (-1,), 0),
    ],
)
def test_what_cannot_lie_there_is_refused(tmp_path: Path, place: Span) -> None:
    handed = Writer(tmp_path, "given").hand([np.zeros(5)])
    with pytest.raises(RunError, match="cannot be taken"):
        Reader().take(replace(handed, spans=(place,)))


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be taken"):
        Reader().take(Handed(tmp_path / "none", (Span("<f8", (1,), 0),)))
    with pytest.raises(RunError, match="no room"):
        Writer(tmp_path / "none", "given").hand([np.zeros(5)])
