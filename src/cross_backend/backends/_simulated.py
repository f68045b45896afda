"""Simulated: how long Atalla's device would take for a blob, as a record of where it ran; no duration is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cross_backend.backend import Option
from cross_backend.errors import LoadError, UnavailableError, one_line
from cross_backend.records import Execution, Simulated

Executor = Literal["device", "rtl"]
"""What simulates."""
EXECUTOR = Option(
    "the kernels; Atalla's simulated device, verified and never timed; or that with the RTL of its matrix unit",
    "fast",
    ("fast", "device", "rtl"),
    at="load",
)


def check_tools() -> None:
    """Refuse the RTL where there are no tools for it.

    Raises:
        UnavailableError: with the command that gets them.
    """
    from atalla import rtl

    reason = rtl.missing()
    if reason is not None:
        raise UnavailableError(reason)


def simulated(payload: Path, executor: Executor, shapes: Sequence[Sequence[int]], precision: str) -> Execution:
    """Return what a run takes on the usual hardware, without running it.

    Args:
        payload: the blob.
        executor: with what matrix unit; its cycles are the same, which each run of the RTL sees to.
        shapes: of the inputs, for a program that takes several.
        precision: of the program, ``fp32``, ``bf16`` or ``int8``.

    Raises:
        LoadError: the program does not fit into the device.
    """
    from atalla import AtallaError
    from atalla.blob.reader import parse
    from atalla.device import Hardware
    from atalla.run.device import DryProgram
    from atalla.run.rtl import BF16, INT8

    data, hardware = payload.read_bytes(), Hardware()
    listing = parse(data)
    try:
        found = DryProgram(data, shapes if listing.symbols else None).simulate(hardware)
    except AtallaError as error:
        raise LoadError(f"Atalla's device cannot run {payload.name}: {one_line(error)}") from error
    by_rtl = sum(row.op in INT8 | BF16 for row in listing.instructions)
    with_what = {
        "device": "",
        "rtl": f" with RTL ({by_rtl} products by it)"
        if by_rtl
        else " (the RTL multiplies int8 and bfloat16, none here)",
    }
    told = Simulated(hardware.name, hardware.clock_mhz, found.cycles, found.milliseconds, found.calls_host)
    return Execution(
        "Atalla's device",
        precision=precision,
        functional_only=f"simulated{with_what[executor]}: {told}",
        simulated=told,
    )
