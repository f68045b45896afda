"""What stops a backend whose compiler and runtime are Python packages: shared by those backends."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from cross_backend.backend import Missing, Unavailable
from cross_backend.machine import version_of
from cross_backend.toolchains import EVERY


def missing_packages(to_lower: Sequence[str], to_run: Sequence[str], extra: str) -> Missing | None:
    """Return which distributions are not installed, and the extra that brings them; nothing is imported."""
    return Missing(absent_packages(to_lower, extra), absent_packages(to_run, extra)) or None


def absent_packages(distributions: Sequence[str], extra: str) -> Unavailable | None:
    """Return which of these distributions are not installed, and the extra that brings them; nothing is imported."""
    absent = [name for name in distributions if version_of(name) is None]
    if not absent:
        return None
    packages = "packages" if len(absent) > 1 else "package"
    return Unavailable(f"needs the {packages} {', '.join(absent)}", f"pip install 'cross-backend[{extra}]'")


def at_once(found: Iterable[Unavailable | None]) -> Unavailable | None:
    """Return all that stops a backend as one reason with one remedy; None where nothing does."""
    reasons = [one for one in found if one is not None]
    if not reasons:
        return None
    first, *others = (one.reason for one in reasons)
    reason = " and ".join([first, *(other.removeprefix("needs ") for other in others)])
    return Unavailable(reason, ", then: ".join(one.remedy for one in reasons))


def missing_toolchain(name: str) -> Unavailable | None:
    """Return that a toolchain, or a runtime, was not added, and how to add it."""
    toolchain = EVERY[name]
    if toolchain.added:
        return None
    pins = ", ".join(f"{distribution} {version}" for distribution, version in toolchain.pins)
    return Unavailable(f"needs the toolchain {name} ({pins}): {toolchain.why}", f"cross-backend toolchain add {name}")


def spaces_in_path(prefix: str = sys.prefix) -> Unavailable | None:
    """Return that this environment's path holds a space, for compilers that break at it; None if there is none.

    They start a linker, or a C++ compiler, by a command line without quotes.
    """
    if not re.search(r"\s", prefix):
        return None
    return Unavailable(
        f"cannot compile from an environment whose path holds a space ({prefix})",
        "install cross-backend in an environment whose path has none",
    )
