"""Targets of a study: every target at every precision, once."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.errors import CrossBackendError
from cross_backend.registry import resolve, with_precision


def expand(targets: Sequence[str], precisions: Sequence[str]) -> tuple[str, ...]:
    """Return every target at every precision, without duplicates, in the order of the targets.

    A target that names its own precision stays as it is. A precision that a backend does not have is kept:
    exporting it says so, and the row stays in the table.
    """
    found: dict[object, str] = {}
    for text in targets:
        for precision in precisions or (None,):
            asked = text if precision is None else with_precision(text, precision)
            found.setdefault(_identity(asked), asked)
    return tuple(found.values())


def _identity(text: str) -> object:
    """Return what makes two texts the same target: the full name and every option with its default."""
    try:
        resolved = resolve(text)
    except CrossBackendError:
        return text
    return resolved.target.name, tuple(sorted(resolved.options.items()))
