"""Arguments: what the functions of the API take; a wrong one is one line: its name, what fits, what came."""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from cross_backend.comparison.settings import Settings
from cross_backend.errors import UsageError
from cross_backend.exporting.export import Observe, lines
from cross_backend.machine import Machine
from cross_backend.names.platforms import PLATFORMS, find_platform
from cross_backend.names.target import Target
from cross_backend.registry import check_targets, expand_all, with_precision
from cross_backend.study import fields
from cross_backend.study.fields import FieldReader, number, share, size, whole

T = TypeVar("T")
_READERS: Mapping[str, FieldReader[Any]] = {
    "adversarial": number(0.001, 604_800),
    "batch": whole(1, 10**9),
    "batch_sizes": whole(1, 10**9),
    "box_s": number(0, 604_800),
    "bundled": fields.truth,
    "found_from": share(0.001, 1, "8%"),
    "jobs": whole(0, 4096),
    "launches": whole(1, 1000),
    "margin": fields.MARGIN,
    "max_drop": share(0, 1, "1%"),
    "max_launches": whole(1, 1000),
    "max_memory": size(1),
    "max_ms": number(1e-6, 604_800_000),
    "max_size": size(1),
    "measure": fields.truth,
    "measured": fields.truth,
    "memory_limit_bytes": size(64_000_000),
    "min_coverage": share(0, 1, "90%"),
    "min_on_device": share(0, 1, "90%"),
    "num_runs": whole(1, 10**9),
    "seconds": number(0.001, 86_400),
    "seed": whole(0, 2**63 - 1),
    "ship_inputs": fields.truth,
    "skip_throttled": fields.truth,
    "threads": whole(1, 4096),
    "timeout_s": number(0.001, 604_800),
    "together": whole(1, 1000),
    "zipped": fields.truth,
}
"""Argument → what reads it."""
logger = logging.getLogger(__name__)


def named(name: str, read: Callable[[Any], T], given: Any) -> T:
    """Read a value; what is wrong with it begins with the argument's name.

    Raises:
        UsageError: it does not fit.
    """
    try:
        return read(given)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def checked(name: str, given: Any) -> Any:
    """Read a number, a share, a size or a truth by its argument's name; None stays.

    Raises:
        UsageError: it does not fit.
    """
    if given is None:
        return None
    if not isinstance(given, bool) and isinstance(given, numbers.Real):  # NumPy's, too
        given = int(given) if isinstance(given, numbers.Integral) else float(given)
    return named(name, _READERS[name], given)


def required(name: str, given: Any) -> Any:
    """Read what :func:`checked` reads, where None does not fit.

    Raises:
        UsageError: it does not fit.
    """
    return named(name, _READERS[name], given) if given is None else checked(name, given)


def settings_of(*, here: bool = True, platform: str | None = None, **given: Any) -> Settings:
    """Return the settings of a comparison.

    Args:
        here: whether this machine measures.
        platform: full name of the platform that was asked for.
        given: fields of ``Settings``.

    Raises:
        UsageError: a value does not fit.
    """
    optional = {"launches", "margin", "memory_limit_bytes", "together"}
    read = {name: (checked if name in optional else required)(name, value) for name, value in given.items()}
    usable = Machine.here().usable_cpus
    if here and read["threads"] > usable:
        raise UsageError(f"threads: this process may use {usable} processor(s), not {read['threads']}.")
    return Settings(**read, platform=platform)


def chosen_targets(
    targets: Sequence[str | Target] | str | Target | None,
    platform: str | None,
    default: Sequence[str],
    precision: str | None = None,
) -> list[str]:
    """Return the targets of a call: those that are named, a platform's, or the default ones.

    Raises:
        UsageError: both are given, or a name or an option does not exist.
    """
    if targets is not None and platform is not None:
        raise UsageError("targets and platform are both given; give one.")
    if platform is not None:
        texts: Iterable[str] = find_platform(_platform(platform)).backends
    else:
        texts = default if targets is None else target_texts("targets", targets)
    named("targets", check_targets, texts)
    if precision is not None:
        precision = named("precision", fields.text, precision)
        named("precision", fields.known_precision, precision)
    return [with_precision(text, precision) for text in texts]


def chosen_target(name: str, target: str | Target) -> str:
    """Return the one target of an argument.

    Raises:
        UsageError: it is not one, or does not exist.
    """
    if not isinstance(target, str | Target):
        raise UsageError(f"{name}: the name of one backend is expected, such as 'cpu', not {described(target)}.")
    named(name, check_targets, [str(target)])
    return str(target)


def target_texts(name: str, targets: Any) -> list[str]:
    """Return a list of targets as texts; a single one is a list of one.

    Raises:
        UsageError: it holds something else, or nothing.
    """
    listed = [targets] if isinstance(targets, str | Target) else targets
    wanted = f"{name}: a list of backends is expected, such as ['torch', 'cpu']"
    if isinstance(listed, Mapping) or not isinstance(listed, Iterable) or hasattr(listed, "dtype"):
        raise UsageError(f"{wanted}, not {described(targets)}.")
    listed = list(listed)
    strange = [one for one in listed if not isinstance(one, str | Target)]
    if strange:
        raise UsageError(f"{wanted}, not {described(strange[0])}.")
    if not listed:
        raise UsageError(f"{wanted}, not an empty list.")
    return expand_all(list(map(str, listed)))


def texts(name: str, given: Any) -> list[str]:
    """Return a list of texts; a single one is a list of one.

    Raises:
        UsageError: it holds something else, or nothing.
    """
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not listed:
        raise UsageError(f"{name}: a list of texts is expected, not {described(given)}.")
    return [named(name, fields.text, one) for one in listed]


def _platform(name: Any) -> str:
    if not isinstance(name, str):
        raise UsageError(f"platform: one of {', '.join(PLATFORMS)} is expected, not {described(name)}.")
    return name


def path_of(name: str, given: str | PathLike[str] | None) -> Path | None:
    """Return a path; None stays.

    Raises:
        UsageError: it is no path.
    """
    if given is None:
        return None
    if not isinstance(given, str | PathLike) or not str(given):
        raise UsageError(f"{name}: a path is expected, not {described(given)}.")
    return Path(given)


def described(given: Any) -> str:
    """Return what a message calls a value that came: short texts and numbers as they are, others by their kind."""
    if given is None or isinstance(given, str | int | float):
        return fields.shown(given)
    if isinstance(given, type):
        return f"the class {given.__name__}"
    kind = type(given).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def logged() -> Observe:
    """Return an observer of exports that logs: how each target ended, and when it began for who debugs."""

    def show(_key: str, text: str, share: float | None) -> None:
        logger.log(logging.DEBUG if share is None else logging.INFO, "%s", text)

    return lines(show)


def log_progress(doing: str, done: int, total: int) -> None:
    """Log a step of a measurement."""
    logger.debug("%s: %d of %d", doing, done, total)
