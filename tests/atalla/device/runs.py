"""Runs: a blob by the kernels and on devices of many kinds; their bits are the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

import atalla
from atalla.device import DeviceOptions, Hardware
from atalla.errors import KernelError
from atalla.run.runtime import Loaded
from tests.atalla.native import OF_NARROW_PRODUCTS, sets_here

KINDS = (
    Hardware(),
    Hardware(scratchpad_bytes=32 << 10),
    Hardware(array=8, scratchpad_bytes=64 << 10, accumulator_rows=72, align=16),
    Hardware(array=64, accumulator_rows=72, scratchpad_bytes=4 << 20, queue=1, vector_int8_factor=1),
    Hardware(array=16, scratchpad_bytes=32 << 10, align=4096, lanes=5, dma_bytes_per_cycle=7, issue_cycles=0),
)
"""Hardware that cuts the same program differently."""


def bits(value: Any) -> Any:
    """Return what can be compared bit by bit."""
    return value.contiguous().reshape(-1).view(torch.uint8) if isinstance(value, torch.Tensor) else value


def _opened(blob: bytes, isa: str, hardware: Hardware) -> Loaded:
    """Open it on the hardware; where its scratchpads are too small, with those that the refusal names."""
    try:
        return Loaded(blob, isa=isa, trust=True, device=DeviceOptions(hardware, poison=True))
    except KernelError as error:
        named = re.search(r"the smallest in which the program runs has (\d+) bytes", str(error))
        if named is None or int(named[1]) <= hardware.scratchpad_bytes:
            raise
        larger = replace(hardware, scratchpad_bytes=int(named[1]))
    return Loaded(blob, isa=isa, trust=True, device=DeviceOptions(larger, poison=True))


def agree(
    blob: bytes,
    inputs: Sequence[torch.Tensor],
    what: object,
    *,
    kinds: Sequence[Hardware] = KINDS,
    isas: Sequence[str] | None = None,
) -> None:
    """See that all devices give the bits of the kernels, with every instruction set, and read only what is there.

    Scratchpads are poisoned: what was not loaded is NaN.
    """
    for isa in sorted(sets_here() - OF_NARROW_PRODUCTS) if isas is None else isas:
        wanted = atalla.load(blob, isa=isa, trust=True).run(inputs)
        for hardware in kinds:
            found = _opened(blob, isa, hardware).run(inputs)
            for one, other in zip(found, wanted, strict=True):
                same = torch.equal(bits(one), bits(other)) if isinstance(one, torch.Tensor) else one == other
                assert same, (what, isa, hardware)
