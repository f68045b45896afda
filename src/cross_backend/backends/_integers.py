"""Whole numbers for runtimes whose indices have 32 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cross_backend.errors import RunError

if TYPE_CHECKING:
    import numpy as np


def to_int32(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Copy whole numbers to a row-major array of 32 bits.

    Args:
        name: of the input, for the error.
        array: of any integer type and shape.

    Raises:
        RunError: a value does not fit.
    """
    import numpy as np

    limits = np.iinfo(np.int32)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        worst = array.max() if array.max() > limits.max else array.min()
        raise RunError(f"input {name!r} holds {worst}, but this runtime takes whole numbers of 32 bits only.")
    return np.array(array, np.int32, order="C")
