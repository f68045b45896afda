"""Pairs: random hardware and small programs, without data; each ends, or is refused and runs in what the refusal names.

``python -m tests.atalla.device.pairs COUNT SEED`` tries so many pairs.
"""

from __future__ import annotations

import ctypes
import random
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atalla.device import Hardware
from atalla.device.structures import DRY, CCounters
from atalla.errors import InputError
from atalla.library import TOO_SMALL, COptions, library, new_error
from atalla.run.kernels import OpenBlob
from tests.atalla import bf16_programs, f32_programs, int8_programs

PATIENCE_S = 20
"""A pair that takes longer hangs."""
MAKERS = (*f32_programs.MAKERS, bf16_programs.convolution, int8_programs.product, int8_programs.convolution)


class FoundError(Exception):
    """A pair that hangs, or breaks a promise."""


@dataclass
class Tally:
    """What came of the pairs."""

    ran: int = 0
    refused: int = 0
    """Whose smallest scratchpad then did."""
    larger: int = 0
    """That were tried with a larger scratchpad, too."""


def programs(count: int = 6) -> list[OpenBlob]:
    """Return small programs of every kind of instruction."""
    return [OpenBlob(make(seed)[0]) for make in MAKERS for seed in range(count)]


def any_hardware(choice: random.Random) -> Hardware:
    """Return hardware that can be, its extremes among it."""
    one = choice.choice
    while True:
        fields: dict[str, Any] = {
            "array": one((8, 16, 32, 64)),
            "accumulator_rows": one((72, 73, 100, 1024, 65536)),
            "lanes": one((1, 7, 32, 4096)),
            "scratchpad_bytes": one((32, 33, 34, 40, 48, 64, 80, 96, 256, 1024, 4096)) << 10,
            "banks": one((1, 2, 16, 32, 512, 1024)),
            "align": one((16, 32, 64, 1024, 4096)),
            "dma_bytes_per_cycle": one((1, 5, 32, 4096)),
            "dma_latency_cycles": one((0, 3, 64, 1_000_000)),
            "queue": one((1, 2, 5, 16, 4096)),
            "issue_cycles": one((0, 1, 4, 10_000)),
            "matrix_f32_factor": one((1, 4, 64)),
            "vector_simple_cycles": one((1, 10_000)),
            "vector_divide_cycles": one((1, 8, 10_000)),
            "vector_exp_cycles": one((1, 16, 10_000)),
            "vector_requantise_cycles": one((1, 2, 10_000)),
            "vector_int8_factor": one((1, 2, 4)),
        }
        try:
            return Hardware(**fields)
        except InputError:
            continue  # no whole lines for each bank


def run(blob: OpenBlob, hardware: Hardware) -> Sequence[CCounters] | str:
    """Return the counters of a run without data, or why there is none."""
    c, error, context, made = library(), new_error(), ctypes.c_void_p(), hardware.structure()
    options = COptions(struct_size=ctypes.sizeof(COptions), hardware=ctypes.addressof(made), device_flags=DRY)
    status = c.atalla_context_new(blob.handle, ctypes.byref(options), ctypes.byref(context), ctypes.byref(error))
    if status:
        text: str = error.text.decode()
        if status != TOO_SMALL:
            raise FoundError(f"status {status}: {text}")
        return text
    try:
        if c.atalla_run(context, None, None, ctypes.byref(error)):
            raise FoundError(error.text.decode())
        count = blob.info.instructions
        rows = (CCounters * count)()
        c.atalla_device_counters(context, rows, ctypes.c_size_t(count))
        return rows
    finally:
        c.atalla_context_free(context)


def check(counters: Sequence[CCounters]) -> int:
    """See that no engine works longer than there is time, nor at two things; return all cycles."""
    clock = 0
    for row in counters:
        if row.cycles and row.begin != clock:
            raise FoundError(f"an instruction begins at {row.begin} instead of {clock}")
        if any(busy > row.cycles for busy in row.busy) or max(row.peak_bytes) > row.room_bytes:
            raise FoundError(f"{row.cycles} cycles, engines {list(row.busy)}, {list(row.peak_bytes)} bytes")
        clock += row.cycles
    return clock


def one_pair(blob: OpenBlob, hardware: Hardware, tally: Tally, *, larger: bool) -> None:
    """Run a pair; with ``larger`` a second time, in four times as much."""
    found = run(blob, hardware)
    if isinstance(found, str):
        named = re.search(r"runs has (\d+) bytes", found)
        if not named or int(named[1]) <= hardware.scratchpad_bytes:
            raise FoundError(f"refused with {found!r}")
        hardware, tally.refused = hardware.replaced(scratchpad_bytes=int(named[1])), tally.refused + 1
        found = run(blob, hardware)
        if isinstance(found, str):
            raise FoundError(f"refused in what was named, too: {found}")
    cycles = check(found)
    tally.ran += 1
    if larger:
        more = run(blob, hardware.replaced(scratchpad_bytes=4 * hardware.scratchpad_bytes))
        if isinstance(more, str) or check(more) > cycles:
            raise FoundError(f"{cycles} cycles, and more with a scratchpad of four times the size")
        tally.larger += 1


def pairs(count: int, seed: int, seconds: float | None = None) -> Tally:
    """Try so many pairs, or as many as there is time for.

    A pair that hangs ends the process by a signal: a handler in Python would wait for the library.
    """
    blobs, choice, tally, began = programs(), random.Random(seed), Tally(), time.monotonic()
    previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        for i in range(count):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            blob, hardware = choice.randrange(len(blobs)), any_hardware(choice)
            signal.alarm(PATIENCE_S)
            try:
                one_pair(blobs[blob], hardware, tally, larger=i % 8 == 0)
            except FoundError as error:
                raise FoundError(f"pair {i} of seed {seed}, program {blob}, {hardware}: {error}") from error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    return tally


if __name__ == "__main__":
    started = time.monotonic()
    result = pairs(int(sys.argv[1]), int(sys.argv[2]))
    spent = time.monotonic() - started
    print(
        f"{result}; {spent:.1f} s, {result.ran / spent:.0f} a second; 1,000,000 take {1e6 * spent / result.ran:.0f} s"
    )
