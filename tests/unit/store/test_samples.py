"""Samples: any numbers come back as they were; damage is found; real latencies get small."""

from __future__ import annotations

import random
import statistics
import sys
from array import array
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.measure.latency import sample
from cross_backend.measurement import Measurement
from cross_backend.records import Comparison, Outcome, Result
from cross_backend.store.rows import from_packet, to_packet
from cross_backend.store.samples import pack, unpack
from tests.unit.store.conftest import launch

ROUNDS = st.lists(
    st.one_of(
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1)),
        st.lists(st.integers(0, 1 << 31)),
        st.lists(st.floats(allow_nan=False)),
    ),
    max_size=1,
) | st.lists(st.one_of(st.lists(st.integers(0, 1 << 40)), st.lists(st.floats(width=32, allow_nan=False))))


@given(ROUNDS)
def test_samples_come_back(rounds: list[list[float]]) -> None:
    measurement = Measurement("x", "ns", tuple(tuple(row) for row in rounds), (len(rounds),))
    back = unpack(pack(measurement))
    assert back == measurement
    assert back.count == measurement.count


@pytest.mark.parametrize(
    ("rows", "encoding"),
    [
        (([0, (1 << 32) - 1], []), "u4"),
        (([1 << 32],), "i8"),
        (([1 << 64], [0]), "f8"),
        (([-1, 5],), "i8"),
        (([0.5], [1]), "f8"),
        ((), "u4"),
        (([],), "u4"),
    ],
)
def test_the_narrowest_encoding_is_taken(rows: tuple[list[float], ...], encoding: str) -> None:
    measurement = Measurement("x", "ns", rows)
    packed = pack(measurement)
    assert packed.encoding == encoding and unpack(packed) == measurement
    whole = [isinstance(value, int) for row in unpack(packed).rounds for value in row]
    assert all(whole) if encoding != "f8" else not any(whole)


def test_whatever_holds_the_samples_gives_the_same_bytes() -> None:
    kinds = [(1, 2, 3), [1, 2, 3], array("q", [1, 2, 3]), array("I", [1, 2, 3]), np.array([1, 2, 3], np.int32)]
    assert len({pack(Measurement("x", "ns", (kind,))) for kind in kinds}) == 1


def test_numbers_that_json_has_not_come_back() -> None:
    nan = float("nan")
    (row,) = unpack(pack(Measurement("x", "J", ((nan, float("inf"), -0.0),)))).rounds
    assert str(list(row)) == "[nan, inf, -0.0]"
    result = Result(
        "net",
        "t\ud800",  # what an undecodable byte of a worker's message becomes
        "T\x00",
        Outcome.MISMATCH,
        comparison=Comparison(nan, float("inf"), float("-inf"), nan, 1e-4, verdict=False),
        task={"$samples": 1.5, "samples": 0.0},
    )
    assert str(from_packet(Result, to_packet(result))) == str(result)


def test_real_latencies_take_less_than_four_bytes() -> None:
    numbers = [random.Random(0).random() for _ in range(300)]
    measurement = Measurement("latency", "ns", (sample(lambda: statistics.fmean(numbers), 2000, 10, 10.0).ns,))
    packed = pack(measurement)
    assert len(packed.data) < 4 * measurement.count
    assert unpack(packed) == measurement


@pytest.mark.parametrize("what", ["data", "lengths"])
def test_damaged_samples_are_found(what: str) -> None:
    packed = pack(Measurement("x", "ns", (tuple(range(1000, 2000)), (5,))))
    whole = getattr(packed, what)
    for at in range(2, len(whole), max(1, len(whole) // 40)):
        with pytest.raises(ValueError, match=r"damaged samples|samples instead of"):
            unpack(replace(packed, **{what: whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]}))
    with pytest.raises(ValueError, match="damaged samples"):
        unpack(replace(packed, **{what: whole[:-3]}))
    with pytest.raises(ValueError, match="unknown encoding 'u5'"):
        unpack(replace(packed, encoding="u5"))
    with pytest.raises(ValueError, match="damaged samples"):
        unpack(replace(packed, count=7))
    with pytest.raises(ValueError, match="1001 samples instead of 1002"):
        unpack(replace(packed, count=1002))


def test_fields_of_other_versions_are_no_obstacle() -> None:
    packet = to_packet(launch())
    newer = replace(packet, content=packet.content.replace('{"results"', '{"of_tomorrow":[1],"results"'))
    older = replace(packet, content=packet.content.replace(',"seconds":12.5', ""))
    assert from_packet(type(launch()), newer) == launch()
    assert from_packet(type(launch()), older) == replace(launch(), seconds=0.0)


@pytest.mark.parametrize("content", ["", "{}", '{"results":[{}]}', '{"results":[{"$samples":99}]}', "[" * 100_000])
def test_a_damaged_record_is_said_to_be_one(content: str) -> None:
    with pytest.raises(ValueError, match="damaged launch"):
        from_packet(type(launch()), replace(to_packet(launch()), content=content))


def test_many_samples_are_read_quickly_and_compactly() -> None:
    """Ten million in less than 2 s and 300 MB: a tenth of that here, on a machine that does other things too."""
    values = np.random.default_rng(0).lognormal(14, 0.05, (30_000, 33)).astype(np.int64)
    packed = pack(Measurement("latency", "ns", tuple(array("q", row.tobytes()) for row in values)))
    back = unpack(packed)
    assert back.count == values.size
    held = sys.getsizeof(back.rounds) + sum(map(sys.getsizeof, back.rounds))
    assert held < 30e6
