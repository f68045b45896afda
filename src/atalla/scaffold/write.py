"""Write: the template's files under another name, all of them or none."""

from __future__ import annotations

import importlib.metadata
import json
import tempfile
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from atalla.errors import AtallaError
from atalla.scaffold.renaming import NAME, TEMPLATE, renamed, sources, words


def write_package(name: str, folder: Path) -> list[Path]:
    """Write the package of a chip of a free name to ``folder/name``, and return its files.

    Raises:
        AtallaError: there is something of that name, or no such folder.
    """
    place = folder / name
    if not folder.is_dir():
        raise AtallaError(f"{folder} is no folder")
    if place.exists() or place.is_symlink():
        raise AtallaError(f"{place} is there already, and nothing is written over")
    requirement, arguments = _origin()
    table = {**words(name), "@CROSS_BACKEND@": _for_make(requirement), "@PIP_ARGS@": _for_make(arguments)}
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as scratch:
        made = Path(scratch) / name
        for source in sources():
            file = made / source.relative_to(TEMPLATE).as_posix().replace(NAME, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(renamed(source.read_text(encoding="utf-8"), table), encoding="utf-8")
        made.rename(place)
    return sorted(path for path in place.rglob("*") if path.is_file())


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
