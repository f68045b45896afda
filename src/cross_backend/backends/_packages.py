"""What stops a backend whose runtime is a Python package: shared by those backends."""

from __future__ import annotations

from cross_backend.backend import Gap, Missing
from cross_backend.machine import version_of


def missing_packages(distributions: tuple[str, ...], extra: str) -> Missing | None:
    """Say which distributions are not installed, and the extra that brings them; nothing is imported."""
    absent = [name for name in distributions if version_of(name) is None]
    if not absent:
        return None
    gap = Gap(
        f"needs the package{'s' if len(absent) > 1 else ''} {', '.join(absent)}",
        f"pip install 'cross-backend[{extra}]'",
    )
    return Missing(lower=gap, run=gap)
