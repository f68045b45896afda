"""Pipes: lines come whole, in time or not at all, and who writes no longer is noticed; both ways of reading."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

import pytest

from cross_backend.worker import pipe
from cross_backend.worker.pipe import Lines, lines_of


@pytest.fixture(params=["polled", "pumped"])
def opened(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[Lines, IO[bytes]]]]:
    """Give a function that makes the lines of a pipe, and the end to write to."""
    if request.param == "pumped":
        monkeypatch.delattr(pipe.select, "poll")  # as on Windows
    files: list[IO[bytes]] = []

    def make(gone: Callable[[], None] | None = None) -> tuple[Lines, IO[bytes]]:
        reading, writing = os.pipe()
        files.extend((os.fdopen(writing, "wb", 0), os.fdopen(reading, "rb")))
        return lines_of(files[1], gone), files[0]

    yield make
    for file in files:
        file.close()


def test_lines_come_one_by_one_however_they_were_written(opened: Callable[..., tuple[Lines, IO[bytes]]]) -> None:
    lines, end = opened()
    end.write(b"one\ntwo\nthr")
    assert [lines.take(5), lines.take(5)] == [b"one\n", b"two\n"]
    with pytest.raises(TimeoutError):
        lines.take(0.05)
    end.write(b"ee\n")
    assert lines.take(math.inf) == b"three\n"


def test_a_line_may_be_longer_than_what_a_pipe_holds(opened: Callable[..., tuple[Lines, IO[bytes]]]) -> None:
    lines, end = opened()
    long = b"x" * 1_000_000 + b"\n"
    writer = threading.Thread(target=lambda: [end.write(long[i : i + 4096]) for i in range(0, len(long), 4096)])
    writer.start()
    assert lines.take(30) == long
    writer.join()


def test_a_line_without_end_is_not_collected(
    opened: Callable[..., tuple[Lines, IO[bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "LONGEST_BYTES", 1000)
    lines, end = opened()
    end.write(b"x" * 3000)
    assert lines.take(5) == b"x" * 1000


def test_what_was_cut_off_by_the_end_is_no_line(opened: Callable[..., tuple[Lines, IO[bytes]]]) -> None:
    lines, end = opened()
    end.write(b"whole\nhalf")
    end.close()
    assert [lines.take(5), lines.take(5)] == [b"whole\n", b""]


def test_the_end_is_told_to_who_does_not_read(opened: Callable[..., tuple[Lines, IO[bytes]]]) -> None:
    told = threading.Event()
    _lines, end = opened(told.set)
    end.write(b"unread\n")
    assert not told.wait(0.1)
    end.close()
    assert told.wait(5)


def test_nothing_in_time_takes_no_longer_than_that(opened: Callable[..., tuple[Lines, IO[bytes]]]) -> None:
    lines, _end = opened()
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        lines.take(0.2)
    assert 0.2 <= time.monotonic() - began < 5
