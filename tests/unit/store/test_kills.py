"""Writers killed at any moment lose no launch that was kept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from cross_backend.store import Store
from tests.unit.store.conftest import PANEL, launch

KILLS = [5, pytest.param(30, marks=pytest.mark.slow)]
# Libraries are imported once; each line on standard input then forks a writer, which prints each number after it was
# kept. The writer's samples follow from its numbers, so the test knows what must be there.
WRITERS = """
import os, sys
import cross_backend.store.queries, cross_backend.store.claims, cross_backend.store.spool, cattrs, filelock, psycopg
import cross_backend.store.transactions, cross_backend.store.schema, sqlalchemy.dialects.postgresql.psycopg
from cross_backend.machine import Machine
from cross_backend.store import Store
from tests.unit.store.conftest import PANEL, VERSIONS, launch
launches = [launch(seed) for seed in range(8)]
for line in sys.stdin:
    writer = os.fork()
    if writer == 0:
        store = Store.open(sys.argv[1])
        study = store.begin("quick", {}, "d" * 64, Machine.here(), VERSIONS)
        number = len(store.launches(study.id, PANEL))
        print("from", number, os.getpid(), flush=True)
        while True:
            store.keep_launch(study.id, PANEL, number, launches[number % 8])
            os.write(1, f"{number}\\n".encode())  # one call: a kill does not come in between
            number += 1
    os.waitpid(writer, 0)
    print("dead", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_any_moment_no_kept_launch_is_lost(where: str, kills: int) -> None:
    moments = random.Random(0)
    kept = 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as writers:
        assert writers.stdin is not None and writers.stdout is not None
        for _ in range(kills):
            writers.stdin.write("go\n")
            _, start, pid = writers.stdout.readline().split()
            # One more than was told may be there: the kill came between the commit and the print.
            assert kept <= int(start) <= kept + 1
            told = [int(writers.stdout.readline()) for _ in range(moments.randrange(4))]
            time.sleep(moments.uniform(0, 0.03))
            os.kill(int(pid), signal.SIGKILL)
            told += map(int, iter(writers.stdout.readline, "dead\n"))
            kept = told[-1] + 1 if told else int(start)
        writers.stdin.close()
    assert kept > kills
    with Store.open(where) as store:
        study = store.find("quick")
        found = store.launches(study.id, PANEL)
        expected = [launch(seed) for seed in range(8)]
        assert kept <= len(found) <= kept + 1
        assert all(one == expected[number % 8] for number, one in enumerate(found))
        assert len(store.studies()) == 1 and store.told == []
