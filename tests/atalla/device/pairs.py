"""Pairs: random hardware and small programs, tried by a driver in C; each ends, or runs in what its refusal names.

``python -m tests.atalla.device.pairs COUNT SEED`` tries so many pairs, and says how many it tries in a second. A pair
that fails is named by its number: ``python -m tests.atalla.device.pairs 1 SEED NUMBER`` tries it alone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from atalla.blob.reader import parse
from atalla.isa import Op
from tests.atalla import bf16_programs, f32_programs, int8_programs
from tests.atalla.device.drivers import DRIVER, FAST, write_program
from tests.atalla.native import executable
from tests.atalla.nets import NETS
from tests.atalla.test_compile import compiled

MAKERS = (*f32_programs.MAKERS, *bf16_programs.MAKERS, *int8_programs.MAKERS)


class FoundError(Exception):
    """A pair that hangs, or breaks a promise."""


@dataclass(frozen=True)
class Tally:
    """What came of the pairs."""

    ran: int
    refused: int
    """Whose smallest scratchpad then did."""
    larger: int
    """That were tried with a larger scratchpad, too."""
    with_data: int
    """That had the bits of the kernels."""


def write_programs(folder: Path, each: int, *, networks: bool) -> list[Path]:
    """Write so many programs of every kind of instruction, and small networks."""
    paths = []
    for make in MAKERS:
        for seed in range(each):
            blob, given, _ = make(seed)
            paths.append(folder / f"{make.__module__.rpartition('.')[2]}.{make.__name__}.{seed}")
            write_program(paths[-1], blob, given)
    for name in sorted(NETS) if networks else ():
        made, inputs, _ = compiled(name)
        if not any(row.op is Op.CALL_HOST for row in parse(made.data).instructions):
            paths.append(folder / name)
            write_program(paths[-1], made.data, inputs)
    return paths


def pairs(count: int, seed: int, paths: list[Path], *, isa: str = "base", first: int = 0) -> Tally:
    """Try so many pairs, from a number on."""
    numbers = (str(seed), str(first), str(count))
    command = [executable(DRIVER, FAST), "pairs", isa, *numbers, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FoundError(f"status {done.returncode}: {done.stderr[-2000:]}")
    return Tally(*map(int, done.stdout.split()))


if __name__ == "__main__":
    wanted, of, *at = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as place:
        files = write_programs(Path(place), 16, networks=True)
        began = time.monotonic()
        result = pairs(wanted, of, files, first=at[0] if at else 0)
        spent = time.monotonic() - began
    print(f"{result}, {len(files)} programs; {spent:.1f} s, {result.ran / spent:.0f} a second")
