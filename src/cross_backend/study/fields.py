"""Fields: readers of what each key of a study may hold, alike whether YAML, the store or Python gave it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit

from cross_backend.errors import UnavailableError, UsageError, unknown_name
from cross_backend.generation.rows import Length
from cross_backend.names.precisions import MEANINGS
from cross_backend.places.address import parse

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"(?P<number>\d{1,16}(\.\d{1,9})?)\s*(?P<unit>([kmgt]i?)?b)?", re.IGNORECASE)
REPORTS = (".html", ".json", ".md")
"""Endings of the reports that a study writes."""
ALWAYS = ("latency", "cold_start")
"""Instruments that every study takes, named or not."""
T = TypeVar("T")


@dataclass(frozen=True)
class FieldReader(Generic[T]):
    """A function that reads one value of a field and raises UsageError, with the JSON Schema of such values."""

    read: Callable[[Any], T]
    schema: Mapping[str, Any]

    def __call__(self, given: Any) -> T:
        """Read a value."""
        return self.read(given)


def reads(**schema: Any) -> Callable[[Callable[[Any], T]], FieldReader[T]]:
    """Return a decorator that makes a function a reader of such values."""
    return lambda function: FieldReader(function, schema)


_TEXT = {"type": "string", "minLength": 1, "maxLength": 500}
_SIZES = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]?[iI]?[bB])?\s*$"}
_PERCENT = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*%\s*$"}


@reads(**_TEXT)
def text(given: Any) -> str:
    """Check a text of one line."""
    if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > 500:
        raise UsageError(f"a text is expected, not {shown(given)}.")
    return given.strip()


@reads(type="string", pattern=r"^\s*\d+:\d+\s*$")
def length(given: Any) -> str:
    """Check a length of generated text: ``128:64``."""
    return str(Length.parse(text(given)))


@reads(**_TEXT)
def place(given: Any) -> str:
    """Check the address of a machine: ``local``, ``ssh://pi``."""
    value = text(given)
    parse(value)
    return value


@reads(type="string", minLength=1, maxLength=100, pattern=r"^[^-/\\][^/\\]*$")
def name(given: Any) -> str:
    """Check the name of a study: what reports and ``study status`` call it."""
    value = text(given)
    if len(value) > 100 or value.startswith("-") or "/" in value or "\\" in value:
        raise UsageError(f"a name of at most 100 characters without slashes is expected, not {shown(given)}.")
    return value


@reads(enum=[True, False, "yes", "no"])
def truth(given: Any) -> bool:
    """Read yes or no, as YAML and people write it."""
    known = {"yes": True, "true": True, "no": False, "false": False}
    found = given if isinstance(given, bool) else known.get(str(given).strip().lower())
    if found is None:
        raise UsageError(f"yes or no is expected, not {shown(given)}.")
    return found


def whole(low: int, high: int) -> FieldReader[int]:
    """Return a reader of whole numbers."""

    @reads(type="integer", minimum=low, maximum=high)
    def read(given: Any) -> int:
        digits = str(given) if isinstance(given, int | str) and not isinstance(given, bool) else ""
        value = int(digits) if re.fullmatch(r"\d{1,15}", digits, re.ASCII) else math.nan
        return int(_within(low, value, high, f"a whole number from {low} to {high}", given))

    return read


def number(low: float, high: float) -> FieldReader[float]:
    """Return a reader of numbers."""
    wanted = f"a number from {low:g} to {high:g}"
    schema = {"type": "number", "minimum": low, "maximum": high}
    return FieldReader(lambda given: _within(low, _float(given), high, wanted, given), schema)


def share(low: float, high: float, example: str) -> FieldReader[float]:
    """Return a reader of shares: ``1%`` or ``0.01``."""

    @reads(anyOf=[{"type": "number", "minimum": low, "maximum": high}, _PERCENT])
    def read(given: Any) -> float:
        percent = isinstance(given, str) and given.rstrip().endswith("%")
        value = _float(given.rstrip().removesuffix("%").rstrip()) / 100 if percent else _float(given)
        return _within(low, value, high, f"a share from {low:g} to {high:g}, such as {example},", given)

    return read


MARGIN = share(0.001, 0.5, "1%")
"""Reads how precise ratios shall be."""


def size(low: int) -> FieldReader[int]:
    """Return a reader of sizes in bytes: ``4 GB``, ``512 MiB`` or a whole number of bytes."""

    @reads(anyOf=[{"type": "integer", "minimum": low}, _SIZES])
    def read(given: Any) -> int:
        digits = str(given) if isinstance(given, int | str) and not isinstance(given, bool) else ""
        match = _SIZE.fullmatch(digits.strip())
        value = round(float(match["number"]) * _UNITS[(match["unit"] or "B").upper()]) if match else 0
        return int(_within(low, value, 2**53 - 1, f"a size such as 4 GB, at least {low // 10**6} MB,", given))

    return read


def _within(low: float, value: float, high: float, wanted: str, given: Any) -> float:
    if not low <= value <= high:
        raise UsageError(f"{wanted} is expected, not {shown(given)}.")
    return value


def _float(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return math.nan
    try:
        return math.nan if isinstance(given, str) and "_" in given else float(given)
    except (ValueError, OverflowError):
        return math.nan


def shown(given: Any) -> str:
    """Return what a message calls a value."""
    if isinstance(given, list | tuple | Mapping):
        return "a mapping" if isinstance(given, Mapping) else "a list"
    text = "nothing" if given is None or given == "" else repr(given)
    return text if len(text) <= 60 else f"{text[:60]}…"


@reads(**_TEXT, pattern=r"^\s*[a-z0-9_]+(\.[a-z0-9_]+)*(\?.+)?\s*$")
def target(given: Any) -> str:
    """Check the form of a target's text."""
    from cross_backend.names.target import Target

    value = text(given)
    Target.parse(value)
    return value


def known_target(value: str) -> None:
    """Look a target's backend and options up.

    Raises:
        UsageError: there is none; a broken backend of another package is not the study's mistake.
    """
    from cross_backend.registry import resolve

    try:
        resolve(value)
    except UnavailableError:
        return


def known_precision(value: str) -> None:
    """Look a precision up in the grammar, and among what other packages' backends have beside it.

    Raises:
        UsageError: it is none.
    """
    from cross_backend.registry import backends

    found = {*MEANINGS, *(one for backend in backends() for one in backend.precisions)}
    if value not in found:
        raise unknown_name("precision", value, found)


def known_instrument(value: str) -> None:
    """Look an instrument up.

    Raises:
        UsageError: there is none.
    """
    from cross_backend.instruments.table import INSTRUMENTS

    if value not in INSTRUMENTS and value not in ALWAYS:
        raise unknown_name("instrument", value, [*INSTRUMENTS, *ALWAYS])


def without_always(instruments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the instruments that are taken because they are named."""
    return tuple(one for one in instruments if one not in ALWAYS)


@reads(**_TEXT, pattern=r"\.([hH][tT][mM][lL]|[jJ][sS][oO][nN]|[mM][dD])\s*$")
def report(given: Any) -> str:
    """Check the path of a report: its ending says its kind."""
    value = text(given)
    if Path(value).suffix.lower() not in REPORTS:
        raise UsageError(f"a file that ends in {', '.join(REPORTS[:-1])} or {REPORTS[-1]} is expected, not {value!r}.")
    return value


@reads(**_TEXT)
def database(given: Any) -> str:
    """Check where results are stored: a file of SQLite, or PostgreSQL's URL without a password: studies are shared."""
    value = text(given)
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        password = parts.password
    except ValueError as error:
        raise UsageError(f"not a URL: {shown(given)}.") from error
    if parts.scheme.partition("+")[0] not in {"postgresql", "postgres"}:
        raise UsageError(f"a file or postgresql://HOST/NAME is expected, not {shown(given)}.")
    if password is not None or "password" in parse_qs(parts.query):
        raise UsageError("a study file holds no password: give it in PGPASSWORD, in ~/.pgpass or in --db.")
    return value
