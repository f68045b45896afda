"""Scripts: what the lines that reproduce a fault without us have in common."""

from __future__ import annotations

from cross_backend.backend import Options
from cross_backend.errors import UnsupportedError

ARRAYS = "[x.numpy() for x in inputs]"
"""The inputs as NumPy arrays."""


def check_float32(title: str, options: Options, taken: tuple[str, ...] = ("fp32",)) -> None:
    """Refuse a precision that takes more than a few lines.

    Raises:
        UnsupportedError: as it says.
    """
    precision = options.get("precision", "fp32")
    if precision not in taken:
        raise UnsupportedError(f"{title} has short scripts for {' and '.join(taken)} only, not for {precision}.")


def check_processor(title: str, options: Options) -> None:
    """Refuse another device than the processor.

    Raises:
        UnsupportedError: as it says.
    """
    device = options.get("device", "cpu")
    if device != "cpu":
        raise UnsupportedError(f"{title} has short scripts for the processor only, not for {device}.")
