"""Executors: what can run a blob. One row each; ``mychip?executor=NAME`` chooses, and all must give the same bits.

CHIP: a real driver is one row more. Either replace the marked part of ``csrc/driver.c``, which serves ExecuTorch as
well, or write a class beside ``Kernels`` that talks to your own library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mychip.kernels import Kernels
from mychip.simulator import Simulator

Array = NDArray[np.float32]


class Executor(Protocol):
    """A blob that was opened."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs, a matrix each, for inputs of float32 that lie row by row."""


EXECUTORS: dict[str, Callable[[bytes], Executor]] = {"kernels": Kernels, "simulator": Simulator}
"""Name → what opens the bytes of a blob, and raises BlobError where they are none."""
