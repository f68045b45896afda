"""Space: the targets that a search tries: every backend at every precision and number of threads that it has."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.errors import UnavailableError
from cross_backend.names.platforms import COMPARED
from cross_backend.names.target import Target
from cross_backend.registry import Role, at_every_precision, find_backend, role_of, with_precision
from cross_backend.registry import resolve as _resolve


def default_targets() -> tuple[str, ...]:
    """Return the backends of a search that names none: those of a comparison, without reference kernels."""
    return tuple(text for text in COMPARED if role_of(_resolve(text).target.name) is not Role.REFERENCE)


def thread_counts(usable: int) -> tuple[int, ...]:
    """Return the numbers of threads that are tried on so many processors: powers of two, and all of them."""
    powers = [1 << power for power in range(usable.bit_length()) if 1 << power <= usable]
    return tuple(dict.fromkeys([*powers, usable]))


def expanded(texts: Sequence[str], precisions: Sequence[str], threads: Sequence[int]) -> tuple[str, ...]:
    """Return every target of the search, float32 first, each once.

    A target that names its precision or threads keeps them, and one whose backend lacks an option is left without it. A
    precision that was asked for and that a backend lacks stays: exporting it says so.

    Args:
        texts: targets as the user wrote them.
        precisions: asked of every target that names none; all that its backend has where empty.
        threads: numbers of threads of every target that names none.
    """
    found = [one for text in texts for one in _threaded(_at_precisions(text, precisions), threads)]
    return tuple(sorted(dict.fromkeys(found), key=lambda text: not computes_fp32(text)))


def _at_precisions(text: str, precisions: Sequence[str]) -> list[str]:
    if precisions:
        return [with_precision(text, precision) for precision in precisions]
    return at_every_precision(text)


def _threaded(texts: Sequence[str], threads: Sequence[int]) -> list[str]:
    found = []
    for text in texts:
        target = Target.parse(text)
        try:
            has_threads = "threads" in find_backend(target.name).options
        except UnavailableError:
            has_threads = False
        counts: Sequence[int | None] = threads if has_threads and "threads" not in target.options else (None,)
        found += [
            text if count is None else str(Target(target.name, {**target.options, "threads": str(count)}))
            for count in counts
        ]
    return found


def computes_fp32(text: str) -> bool:
    """Whether a target computes in float32: by its name or default, or because its backend knows nothing else."""
    target = Target.parse(text)
    try:
        option = find_backend(target.name).options.get("precision")
    except UnavailableError:
        return False
    return option is None or target.options.get("precision", option.default) == "fp32"
