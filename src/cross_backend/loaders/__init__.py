"""Loaders: short sources that a bundle ships, which read its manifest and open the first artifact that works."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from cross_backend.errors import UsageError
from cross_backend.names.platforms import PLATFORMS, find_platform

_NAME = re.compile(r"\w[\w .+-]*")
_ANDROID = ("android", "android-qualcomm")
_APPLE = ("ios", "macos")
_DESKTOP = ("linux", "macos", "windows")


LOADERS: Mapping[str, Sequence[str]] = {
    "LoadBest.kt": _ANDROID,
    "LoadBest.swift": _APPLE,
    "load_best.dart": (*_ANDROID, "ios", *_DESKTOP, "web"),
    "load_best.hpp": (*_ANDROID, "embedded", "ios", *_DESKTOP, "web"),
    "load_best.py": _DESKTOP,
}
"""File of a language's loader, sorted → platforms where ExecuTorch can be called from that language.

Its template is ``templates/<file>.template``."""


def write_loaders(model: str, platforms: Sequence[str], folder: Path) -> list[str]:
    """Write the loader of every language that one of the platforms is programmed in.

    Args:
        model: name of the bundle; it stands in examples and default paths.
        platforms: platforms that the bundle is made for; none means any, and all languages.
        folder: where the files go; created if it is missing.

    Returns:
        Names of the files written, sorted.

    Raises:
        UsageError: there is no such platform, or the name would end the texts that it is written into.
    """
    if not _NAME.fullmatch(model):
        raise UsageError(f"{model!r} cannot stand in source code; name the model with letters, digits, '_' and '-'.")
    wanted = {find_platform(name).name for name in platforms or PLATFORMS}
    files = [file for file, callable_on in LOADERS.items() if wanted & set(callable_on)]
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        template = resources.files(__name__) / "templates" / f"{file}.template"
        text = template.read_text(encoding="utf-8").replace("@MODEL@", model)
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    return files
