"""Looks: the colour, dash and marker of a target: the same in every chart of a report and on every page."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from cross_backend.names.platforms import COMPARED
from cross_backend.registry import full_name, rows

COUNT = 8
"""Colours of the style sheet, and forms: a dash with a marker."""
_PRECISIONS = {"fp32": 0, "int8": 1, "fp16": 2, "bf16": 3, "int8dyn": 4, "int4w": 5}


@dataclass(frozen=True)
class Look:
    """How a target is drawn; ``report.css`` has the colours ``s0`` to ``s7`` and the dashes ``d0`` to ``d7``."""

    colour: int
    """0 to 7."""
    form: int
    """Of its dash and of its marker, 0 to 7."""

    @property
    def line(self) -> str:
        """Classes of a line."""
        return f"s{self.colour} d{self.form}"


def kind(index: int) -> Look:
    """Return the look of the n-th kind of mark, where marks are no targets."""
    return Look(index % COUNT, index % COUNT)


def look_of(target: str) -> Look:
    """Return the look of a full target: the colour is its backend's; the form that of precision and other options."""
    name, _, options = target.partition("?")
    ours = [*map(full_name, COMPARED), *rows()]
    place = list(dict.fromkeys(ours)).index(name) if name in ours else zlib.crc32(name.encode()) % COUNT**2
    variant = 0
    for option in filter(None, options.split("&")):
        key, _, value = option.partition("=")
        variant += _PRECISIONS[value] if key == "precision" and value in _PRECISIONS else zlib.crc32(option.encode())
    return Look(place % COUNT, (place + 3 * (place // COUNT) + variant) % COUNT)


def looks(targets: Iterable[tuple[str, str]]) -> dict[str, Look]:
    """Return the looks of a study's targets by their titles, no two alike while there are looks left.

    The first eight also differ without colour. Who finds its own form taken keeps its colour.

    Args:
        targets: title and full target of each, in the order of the study.
    """
    found: dict[str, Look] = {}
    for title, target in targets:
        if title not in found:
            wanted = look_of(target)
            others = [
                Look((wanted.colour + colour) % COUNT, (wanted.form + form) % COUNT)
                for colour in range(COUNT)
                for form in range(COUNT)
            ]
            taken, forms = set(found.values()), {look.form for look in found.values()}
            free = [look for look in others if look not in taken]
            found[title] = next((look for look in free if look.form not in forms), free[0] if free else wanted)
    return found
