"""Hardware: what a simulated device is made of, as a value, and in a file of TOML or JSON."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import re
import reprlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atalla.device.structures import CHardware
from atalla.errors import InputError

LEAST_SCRATCHPAD, MOST_SCRATCHPAD = 32 << 10, 1 << 30
LINE = 64
MOST_FILE_BYTES = 64 << 10
BOUNDS = {
    "clock_mhz": (1, 100_000),
    "array": (8, 64),
    "accumulator_rows": (72, 1 << 16),
    "lanes": (1, 4096),
    "scratchpad_bytes": (LEAST_SCRATCHPAD, MOST_SCRATCHPAD),
    "banks": (1, 1024),
    "align": (16, 4096),
    "dma_bytes_per_cycle": (1, 4096),
    "dma_latency_cycles": (0, 1_000_000),
    "queue": (1, 4096),
    "issue_cycles": (0, 10_000),
    "matrix_f32_factor": (1, 64),
    "vector_simple_cycles": (1, 10_000),
    "vector_divide_cycles": (1, 10_000),
    "vector_exp_cycles": (1, 10_000),
    "vector_requantise_cycles": (1, 10_000),
    "vector_int8_factor": (1, 4),
}
"""Field → least and most; the same as in ``csrc/device/hardware.c``."""


@dataclass(frozen=True)
class Hardware:
    """A simulated device; everything in it takes whole cycles of one clock."""

    name: str = "atalla"
    """For people."""
    clock_mhz: int = 1000
    """Cycles in a microsecond."""
    array: int = 32
    """Rows, and columns, of the matrix unit: 8, 16, 32 or 64."""
    accumulator_rows: int = 1024
    """Rows of sums that the matrix unit keeps, each ``array`` wide; 64 at least."""
    lanes: int = 32
    """Of the vector unit, 32 bits each: elements that it takes at a time."""
    scratchpad_bytes: int = 1 << 20
    """Of each of the two scratchpads; 32 KiB at least, a multiple of ``banks · 64``."""
    banks: int = 32
    """Of a scratchpad."""
    align: int = 64
    """Bytes: where regions of a scratchpad begin; a power of two."""
    dma_bytes_per_cycle: int = 32
    """Width of the DMA, each way."""
    dma_latency_cycles: int = 64
    """Of each descriptor."""
    queue: int = 16
    """Micro-operations that wait for each engine at most."""
    issue_cycles: int = 4
    """Of firmware, for each micro-operation."""
    matrix_f32_factor: int = 4
    """Edges of the matrix unit for a row of float32, where one of int8 or bfloat16 takes one."""
    vector_simple_cycles: int = 1
    """Of the vector unit for ``lanes`` elements: a sum, product or bound."""
    vector_divide_cycles: int = 8
    """The same: a quotient or root."""
    vector_exp_cycles: int = 16
    """The same: an exponential, or what else is worked out by a polynomial."""
    vector_requantise_cycles: int = 2
    """The same: int8 of sums. The lane's product takes the scale, its sum the offset, and what it writes is bounded."""
    vector_int8_factor: int = 4
    """Parts of a lane, which take an int8 each: taps of a filter that go into one sum, or elements that are moved or
    compared as they lie. 1, 2 or 4."""

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            InputError: a field has no sense; the text begins with its name.
        """
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputError(f"{name} is {_shown(value)}: it is a whole number")
            if not least <= value <= most:
                raise InputError(f"{name} is {_shown(value)}: it is {least} to {most}")
        if not isinstance(self.name, str):
            raise InputError(f"name is {_shown(self.name)}: it is a text")
        if self.array & (self.array - 1):
            raise InputError(f"array is {self.array}: it is 8, 16, 32 or 64")
        if self.align & (self.align - 1):
            raise InputError(f"align is {self.align}: it is a power of two")
        if self.vector_int8_factor == 3:
            raise InputError("vector_int8_factor is 3: it is 1, 2 or 4")
        step = self.banks * LINE
        if self.scratchpad_bytes % step:
            text = f"it is a multiple of banks · {LINE}, which is {step}"
            raise InputError(f"scratchpad_bytes is {self.scratchpad_bytes}: {text}")

    def replaced(self, **fields: Any) -> Hardware:
        """Return the same with other values of some fields.

        Raises:
            InputError: they have no sense.
        """
        return dataclasses.replace(self, **fields)

    def document(self) -> dict[str, Any]:
        """Return it as a file holds it."""
        return dataclasses.asdict(self)

    def structure(self) -> CHardware:
        """Return it as C takes it."""
        same = {name: getattr(self, name) for name, *_ in CHardware._fields_ if name in BOUNDS}
        of_vector = (getattr(self, f"vector_{step}_cycles") for step in ("simple", "divide", "exp", "requantise"))
        cycles = (ctypes.c_uint32 * 4)(*of_vector)
        return CHardware(struct_size=ctypes.sizeof(CHardware), vector_cycles=cycles, **same)

    def milliseconds(self, cycles: int) -> float:
        """Return how long so many cycles take at the clock; an estimate, never measured."""
        return cycles / (self.clock_mhz * 1000)


def read_hardware(path: Path) -> Hardware:
    """Read a file of TOML or JSON; what it does not name is as usual.

    Raises:
        InputError: it cannot be read, or has no sense; the text names file, line and reason.
        OSError: there is no such file.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file")
    with path.open("rb") as file:
        text = file.read(MOST_FILE_BYTES + 1)
    if len(text) > MOST_FILE_BYTES:
        raise InputError(f"{path} is longer than {MOST_FILE_BYTES >> 10} KiB")
    try:
        decoded = text.decode()
        found = json.loads(decoded) if path.suffix == ".json" else tomllib.loads(decoded)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise InputError(f"{path} is no {kind}: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} is no table of fields")
    known = {field.name for field in dataclasses.fields(Hardware)}
    for name in found:
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InputError(f"{_place(path, decoded, name)}: there is no field {_shown(name)}; there are {listed}")
    try:
        return Hardware(**{"name": path.stem, **found})
    except InputError as error:
        field = str(error).split(" ", 1)[0]
        raise InputError(f"{_place(path, decoded, field)}: {error}") from error


def _shown(value: object) -> str:
    """Return a value out of a file in a few characters; it may be as long as it likes."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number of thousands of digits"


def _place(path: Path, text: str, field: str) -> str:
    """Return the file, and the line that sets a field where one does."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf'.*(^|[\s{{,"\'])({re.escape(field)})["\']?\s*[=:]', line):
            return f"{path}, line {number}"
    return str(path)
