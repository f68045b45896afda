"""Rows: what the store returns, and how records become text and packed samples."""

from __future__ import annotations

import functools
import json
import math
from base64 import b85decode, b85encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

from cross_backend.errors import one_line
from cross_backend.machine import Machine
from cross_backend.measurement import Measurement
from cross_backend.records import PanelKey
from cross_backend.store.samples import Packed, pack, unpack

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
MARK = "$samples"
"""Key that stands for a measurement in the JSON of a record; its value is the measurement's position."""


@dataclass(frozen=True)
class StoredStudy:
    """A study as it was begun."""

    id: int
    uid: str
    """The same in no other database: 32 hexadecimal digits."""
    name: str
    digest: str
    """Of what it was asked to do."""
    spec: Mapping[str, Any]
    """What it was asked to do."""
    machine: Machine
    versions: Mapping[str, str]
    """Distribution → version, of what takes part."""
    started: str
    """Date and time, ISO 8601 with its offset."""
    finished: str | None = None
    """Likewise; None while panels are missing."""
    driver: str | None = None
    """Which process runs it, or ran it last: ``process 4711 on host since …``."""


@dataclass(frozen=True)
class StudyRow:
    """A study in a list."""

    id: int
    name: str
    started: str
    """Date and time, ISO 8601 with its offset."""
    finished: str | None
    """Likewise; None while panels are missing."""
    panels: int
    """How many are finished."""
    launches: int
    """How many are stored, of all panels."""
    trials: int
    """Targets of all panels that were begun."""
    samples: int
    """Raw values of all metrics."""


@dataclass(frozen=True)
class PanelRow:
    """A panel in a list."""

    key: PanelKey
    finished: str | None
    """Date and time, ISO 8601 with its offset; None while launches or instruments are missing."""
    note: Mapping[str, Any]
    """What was handed over when it was finished."""
    launches: int
    """How many are stored."""
    trials: int
    """Targets of a launch."""
    samples: int
    """Raw values of all metrics."""


def typed(kind: type[T], *values: Any) -> T:
    """Build a row; SQLite's columns hold values of any type, so each is compared with what its field is to be.

    Raises:
        TypeError: one is something else.
    """
    row = kind(*values)
    for name, wanted in get_type_hints(kind).items():
        plain = wanted if isinstance(wanted, UnionType) else get_origin(wanted) or wanted
        if not isinstance(getattr(row, name), plain):
            raise TypeError(f"{name} is {getattr(row, name)!r:.40}")
    return row


@dataclass(frozen=True)
class Packet:
    """A record as the database holds it."""

    content: str
    """JSON without samples; ``{"$samples": k}`` stands for a measurement."""
    series: tuple[Packed, ...]
    """The measurements."""

    @property
    def count(self) -> int:
        """Samples of all measurements."""
        return sum(packed.count for packed in self.series)


def to_packet(record: Any) -> Packet:
    """Encode a frozen dataclass of :mod:`cross_backend.records`: light parts as JSON, measurements packed."""
    series: list[Packed] = []

    def lift(measurement: object) -> dict[str, int]:
        assert isinstance(measurement, Measurement), f"no record holds a {type(measurement).__name__}"
        series.append(pack(measurement))
        return {MARK: len(series) - 1}

    # Escapes keep what columns of text cannot hold and a broken worker may print: the character 0, lone surrogates.
    tree = converter().unstructure(record)
    content = json.dumps(tree, default=lift, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return Packet(content, tuple(series))


def from_packet(kind: type[T], packet: Packet) -> T:
    """Decode what :func:`to_packet` gave.

    Fields that a newer version added have their defaults; those that it dropped are passed over.

    Raises:
        ValueError: damaged.
    """

    def put_back(row: dict[str, Any]) -> Any:
        return unpack(packet.series[row[MARK]]) if row.keys() == {MARK} else row

    return from_json(kind, packet.content, put_back)


def from_json(kind: type[T], text: str, put_back: Callable[[dict[str, Any]], Any] | None = None) -> T:
    """Read a value of a type.

    Args:
        kind: the type.
        text: JSON.
        put_back: what stands for a row, where that is not the row itself.

    Raises:
        ValueError: damaged.
    """
    try:
        return converter().structure(json.loads(text, object_hook=put_back), kind)
    except Exception as error:  # cattrs raises groups of whatever its hooks raise
        raise ValueError(f"damaged {kind.__name__.lower()} ({one_line(error)})") from error


@functools.cache
def converter() -> Converter:
    """Return what makes JSON of rows and records, and reads it."""
    from cattrs import Converter

    made = Converter()
    made.register_unstructure_hook(float, _number)  # float() reads "nan" and "inf" back
    made.register_unstructure_hook(bytes, lambda data: b85encode(data).decode())
    made.register_structure_hook(bytes, lambda text, _: b85decode(text))
    made.register_unstructure_hook(Measurement, lambda measurement: measurement)
    made.register_structure_hook(Measurement, lambda measurement, _: _checked(measurement))
    return made


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _checked(measurement: object) -> Measurement:
    if not isinstance(measurement, Measurement):
        raise TypeError("no samples")
    return measurement
