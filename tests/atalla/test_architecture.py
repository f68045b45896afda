"""Architecture: the page names files, wings and words that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import atalla

ROOT = Path(__file__).parents[2]
SOURCE = Path(atalla.__file__).parent
PAGE = (ROOT / "docs" / "atalla" / "architecture.md").read_text()


def test_every_file_that_is_named_is_there() -> None:
    names = re.findall(r"`([\w/]+\.(?:py|c|h))`", PAGE)
    folders = [SOURCE, SOURCE / "csrc"]
    missing = [name for name in names if not any((folder / name).is_file() for folder in folders)]
    assert len(names) > 30 and not missing


def test_every_module_stands_in_the_picture_and_in_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == ["atalla"]]
    held = {name for layer in layers for name in layer.split(" | ")}
    files = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert held == files - {"__init__"}
    picture = PAGE.partition("## Wings")[2].partition("`make check`")[0]
    assert not [name for name in held - {"__main__"} if not re.search(rf"\b{name}\b", picture)]


def test_the_vocabulary_is_that_of_the_code() -> None:
    words = re.findall(r"^\| \*\*(\w+)\*\* \|", PAGE, re.MULTILINE)
    code = "\n".join(path.read_text() for path in SOURCE.rglob("*.py")).lower()
    assert len(words) > 10 and not [word for word in words if not re.search(rf"\b{word.lower()}s?\b", code)]
