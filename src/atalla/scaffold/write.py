"""Write: the template's files under another name, all of them or none."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from atalla.errors import AtallaError
from atalla.scaffold.names import check_name

TEMPLATE = Path(__file__).with_name("template")
"""A whole package, of a chip called mychip; the tests run it as it is."""
_MAGIC_BYTES = 8
_LEAVINGS = {"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".venv", "build"}


def write_package(name: str, folder: Path) -> list[Path]:
    """Write the package of a new chip to ``folder/name``, and return its files.

    Raises:
        AtallaError: the name is not free, there is something of that name, or no such folder.
    """
    check_name(name)
    place = folder / name
    if not folder.is_dir():
        raise AtallaError(f"{folder} is no folder")
    if place.exists() or place.is_symlink():
        raise AtallaError(f"{place} is there already, and nothing is written over")
    words = _words(name)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as scratch:
        made = Path(scratch) / name
        for source in _sources():
            file = made / source.relative_to(TEMPLATE).as_posix().replace("mychip", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_renamed(source.read_text(encoding="utf-8"), words), encoding="utf-8")
        made.rename(place)
    return sorted(path for path in place.rglob("*") if path.is_file())


def _sources() -> Iterator[Path]:
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file() and not _LEAVINGS.intersection(path.relative_to(TEMPLATE).parts):
            yield path


def _words(name: str) -> dict[str, str]:
    """Return what stands in the template → what it becomes."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    requirement, arguments = _origin()
    return {
        "MYCHIP__": name.upper()[:_MAGIC_BYTES].ljust(_MAGIC_BYTES, "_"),
        "MYCHIP": name.upper(),
        "Mychip": camel,
        "mychip": name,
        "@CROSS_BACKEND@": _for_make(requirement),
        "@PIP_ARGS@": _for_make(arguments),
    }


def _renamed(text: str, words: dict[str, str]) -> str:
    return re.sub("|".join(words), lambda found: words[found[0]], text)


def _origin() -> tuple[str, str]:
    """Return what pip has to install to get the cross-backend that runs here, and with which further arguments."""
    try:
        installed = importlib.metadata.distribution("cross-backend")
    except importlib.metadata.PackageNotFoundError:
        return "cross-backend", ""
    text = installed.read_text("direct_url.json")
    if text is None:
        return f"cross-backend=={installed.version}", ""
    url = urlsplit(json.loads(text)["url"])
    place = Path(url2pathname(url.path))
    if url.scheme != "file" or not place.exists() or "'" in str(place):
        return "cross-backend", ""
    constraints = place / "constraints.txt"
    return str(place), f"-c '{constraints}'" if constraints.is_file() else ""


def _for_make(text: str) -> str:
    """Escape what make reads as its own."""
    return text.replace("$", "$$").replace("#", r"\#")
