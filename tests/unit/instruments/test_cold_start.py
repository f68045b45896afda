"""Cold start: every step once, nothing claimed that was not cold."""

from __future__ import annotations

from dataclasses import replace

from cross_backend.bench.bench import Opened, Verified
from cross_backend.instruments.cold_start import TABLE, anatomy
from cross_backend.records import Comparison

OPENED = Opened(cold=True, process_ns=500, import_ns=20, load_ns=30, bind_ns=5)
VERIFIED = Verified(Comparison(0, 0, 0, 1, 1, verdict=True), (), 40)


def test_the_steps_of_one_start() -> None:
    found = anatomy(OPENED, VERIFIED)
    assert [m.metric for m in found] == [f"cold_start.{step}" for step in TABLE.parts]
    assert [m.values for m in found] == [(500,), (20,), (30,), (40,)]
    assert {(m.unit, len(m.rounds), m.launches) for m in found} == {("ns", 1, (1,))}


def test_what_was_not_cold_is_not_given() -> None:
    assert anatomy(replace(OPENED, cold=False), VERIFIED) == ()
    assert [m.metric for m in anatomy(OPENED, replace(VERIFIED, first_ns=None))][-1] == "cold_start.load"
