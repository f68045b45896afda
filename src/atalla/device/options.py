"""Options: what a context is told so that it runs on a simulated device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from atalla.device.hardware import Hardware
from atalla.device.structures import COMPARE, DRY, EVENTS, POISON

Matmul = Callable[[int, int], int]
"""Called with what belongs to it, and the address of an ``atalla_matrix_tile``; 0 where all is well."""


@dataclass(frozen=True)
class MatrixUnit:
    """Another matrix unit than the simulator's own; functions are ctypes', addresses those of what they work on."""

    int8: object | None = None
    """``atalla_matmul`` of int8: a function of a library, or what ``structures.MATMUL`` makes of one of Python."""
    int8_unit: int | None = None
    """What it is called with."""
    bf16: object | None = None
    """The same of bfloat16."""
    bf16_unit: int | None = None
    """What it is called with."""
    owner: object | None = None
    """What must live as long as the functions are called."""


@dataclass(frozen=True)
class DeviceOptions:
    """A device, and what is wanted of it."""

    hardware: Hardware = field(default_factory=Hardware)
    """What it is made of."""
    unit: MatrixUnit | None = None
    """Another matrix unit."""
    dry: bool = False
    """Time alone: no data, no inputs."""
    events: bool = False
    """Keep what each micro-operation did."""
    poison: bool = False
    """Fill scratchpad memory with NaN when it is handed out and when it is given back."""
    rtl: bool = False
    """The matrix unit is that in SystemVerilog, of the array's size, for int8 and bfloat16; its cycles are compared."""

    @property
    def flags(self) -> int:
        """As C takes them."""
        return DRY * self.dry | EVENTS * self.events | POISON * self.poison | COMPARE * self.rtl
