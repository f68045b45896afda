"""Renaming: the template's files, and what stands in them instead of a chip's name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TEMPLATE = Path(__file__).with_name("template")
"""A whole package, of a chip called mychip; the tests run it as it is."""
NAME = "mychip"
_MAGIC_BYTES = 8
_LEAVINGS = {"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".venv", "build"}


def sources() -> Iterator[Path]:
    """Yield the template's files, but for what Python and make leave beside them."""
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file() and not _LEAVINGS.intersection(path.relative_to(TEMPLATE).parts):
            yield path


def words(name: str) -> dict[str, str]:
    """Return what the template says for the name → what a chip of that name says."""
    return {
        "MYCHIP__": name.upper()[:_MAGIC_BYTES].ljust(_MAGIC_BYTES, "_"),
        "MYCHIP": name.upper(),
        "Mychip": "".join(part.capitalize() for part in name.split("_")),
        NAME: name,
    }


def renamed(text: str, table: dict[str, str]) -> str:
    """Return a text with each of the table's keys replaced, the first that fits."""
    return re.sub("|".join(map(re.escape, table)), lambda found: table[found[0]], text)


def clash(name: str) -> str | None:
    """Return a class, function or macro of a chip of that name which the template calls something else already."""
    table = words(name)
    everything = "\n".join(path.read_text(encoding="utf-8") for path in sources())
    said = set(re.findall(r"\w+", everything))
    named = {word for word in said if word != NAME and NAME in word.lower()}
    taken = sorted({renamed(word, table) for word in named} & (said - named))
    return taken[0] if taken else None
