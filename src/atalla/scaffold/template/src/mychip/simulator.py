"""Simulator: the definition of what the chip computes, in NumPy, and an estimate of the cycles that it takes.

It is slow and plain. Sums go by rising k and every operation is rounded to float32, as the kernels and the chip do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mychip.blob import NONE, Blob, Instruction, Op
from mychip.reader import read

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Hardware:
    """CHIP: the figures of yours."""

    rows: int = 16
    """Of the matrix unit, which does ``rows × columns`` multiply-adds in a cycle."""
    columns: int = 16
    lanes: int = 16
    """Elements of the vector unit."""
    bytes_per_cycle: int = 16
    """Of the DMA between memory and the units."""
    clock_hz: float = 500e6


def cycles(blob: Blob, hardware: Hardware | None = None) -> int:
    """Return how long a run takes: of each instruction, loading or computing, whichever is longer."""
    hardware = hardware or Hardware()
    return sum(max(_computing(blob, one, hardware), _moving(blob, one, hardware)) for one in blob.instructions)


def _computing(blob: Blob, one: Instruction, hardware: Hardware) -> int:
    result = blob.tensors[one.result]
    if one.op != Op.LINEAR:
        return _up(result.rows * result.columns, hardware.lanes)
    depth = blob.tensors[one.sources[0]].columns
    return _up(result.rows, hardware.rows) * _up(result.columns, hardware.columns) * depth


def _moving(blob: Blob, one: Instruction, hardware: Hardware) -> int:
    moved = (blob.tensors[number] for number in (one.result, *one.sources) if number != NONE)
    return _up(4 * sum(tensor.rows * tensor.columns for tensor in moved), hardware.bytes_per_cycle)


def _up(count: int, by: int) -> int:
    return -(-count // by)


class Simulator:
    """An executor; ``cycles`` says what its runs took so far."""

    def __init__(self, data: bytes) -> None:
        self._blob = read(data)
        self._memory = np.zeros(self._blob.memory, np.float32)
        self._memory[: len(self._blob.constants)] = self._blob.constants
        self.cycles = 0

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs."""
        for number, given in zip(self._blob.inputs, inputs, strict=True):
            self._view(number)[:] = given.reshape(self._view(number).shape)
        with np.errstate(all="ignore"):  # infinities and NaN are results, too
            for one in self._blob.instructions:
                self._step(one)
        self.cycles += cycles(self._blob)
        return [self._view(number).copy() for number in self._blob.outputs]

    def _view(self, number: int) -> Array:
        tensor = self._blob.tensors[number]
        return self._memory[tensor.place : tensor.end].reshape(tensor.rows, tensor.columns)

    def _step(self, one: Instruction) -> None:
        result = self._view(one.result)
        x, *more = (self._view(number) for number in one.sources if number != NONE)
        match one.op:
            case Op.LINEAR:
                weight, *bias = more
                result[:] = bias[0] if bias else 0.0
                for k in range(x.shape[1]):
                    result += x[:, k, None] * weight[None, :, k]
            case Op.RELU:
                result[:] = np.where(x < 0, np.float32(0), x)
            case Op.ADD:
                np.add(x, more[0], out=result)
            case Op.MUL:
                np.multiply(x, more[0], out=result)
