"""RTL: the matrix unit in SystemVerilog as the device's own, for the types that a program multiplies on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atalla.device.options import MatrixUnit
from atalla.errors import InputError
from atalla.isa import Op
from atalla.rtl import ROWS, SIZES
from atalla.rtl import MatrixUnit as Simulated

if TYPE_CHECKING:
    from atalla.blob.reader import Listing
    from atalla.device.hardware import Hardware

INT8 = frozenset({Op.QGEMM, Op.QCONV2D})
"""Products of int8."""
BF16 = frozenset({Op.BGEMM, Op.BCONV2D})
"""Products of bfloat16."""


def matrix_unit(listing: Listing, hardware: Hardware) -> MatrixUnit:
    """Return the unit for a device; what a program does not multiply is not built. C calls it, with no Python between.

    Raises:
        InputError: there is no such unit for this hardware.
        AtallaError: a tool is absent, with the command that gets it, or a tool failed.
    """
    if hardware.array not in SIZES:
        sizes = f"{', '.join(map(str, SIZES[:-1]))} and {SIZES[-1]}"
        raise InputError(f"the RTL has matrix units of {sizes}, none of {hardware.array}: give other hardware")
    if hardware.accumulator_rows > ROWS:
        raise InputError(f"the RTL's accumulators have {ROWS} rows, not {hardware.accumulator_rows}")
    unit, used = Simulated(hardware.array), {row.op for row in listing.instructions}
    int8, int8_unit = unit.entry("int8") if used & INT8 else (None, None)
    bf16, bf16_unit = unit.entry("bf16") if used & BF16 else (None, None)
    return MatrixUnit(int8, int8_unit, bf16, bf16_unit, owner=unit)
