"""Load in bursts: one process a processor that spins and sleeps by a seeded plan, until its parent is gone.

python benchmarks/_load.py SEED
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

SHORTEST_S, LONGEST_S = 0.005, 2.0
"""Of a burst and of a pause, drawn evenly on a logarithmic scale: shorter and longer than a call, a block, a round."""


def spin(seed: str) -> None:
    """Spin and sleep by turns; the end of standard input ends the process."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    chance = random.Random(seed)
    while True:
        for work in (True, False):
            end = time.perf_counter() + math.exp(chance.uniform(math.log(SHORTEST_S), math.log(LONGEST_S)))
            while work and time.perf_counter() < end:
                pass
            time.sleep(max(0.0, end - time.perf_counter()))


@contextlib.contextmanager
def loaded(processors: int) -> Iterator[None]:
    """Keep so many processors busy half of the time."""
    command = [sys.executable, "-I", __file__]
    processes = [  # each in a session of its own, as a worker is: Linux shares the processors out by session
        subprocess.Popen([*command, str(seed)], stdin=subprocess.PIPE, start_new_session=True)
        for seed in range(processors)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    spin(sys.argv[1])
