"""Turns: who asked first comes first, and one alone at a time."""

from __future__ import annotations

import threading
import time

from cross_backend.web.turns import Turns


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    turns, seen, threads = Turns(), [], []

    def wait(number: int) -> None:
        with turns:
            seen.append(number)

    with turns:
        for number in range(20):
            threads.append(threading.Thread(target=wait, args=(number,)))
            threads[-1].start()
            while len(turns) <= number:  # it has asked
                time.sleep(0.001)
        assert not seen
    with turns:  # who had it before comes last
        assert seen == list(range(20))
    for thread in threads:
        thread.join()


def test_a_failure_gives_the_turn_on() -> None:
    turns = Turns()
    try:
        with turns:
            raise KeyError
    except KeyError:
        with turns:
            assert len(turns) == 0
