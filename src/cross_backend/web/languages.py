"""Languages: the pages' own texts in the language that a browser asks for; English where one is not translated."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from gettext import GNUTranslations, NullTranslations
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from cross_backend.foreign_text import plain

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = resources.files(__name__.rpartition(".")[0])
ENGLISH = "en"
_RANGE = re.compile(r"(?ai)\s*([a-z]{1,8})(?:-[a-z0-9]{1,8})*\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?")
"""A language and its weight in an Accept-Language header (RFC 9110, section 12.5.4)."""
_CALL = re.compile(r'\b_\(("(?:[^"\\]|\\.)*")')
"""A text in a script."""


@functools.cache
def languages() -> Mapping[str, NullTranslations]:
    """Return what translates into each language that has a catalogue in ``locale/``, and into English."""
    found = {ENGLISH: NullTranslations()}
    for folder in FOLDER.joinpath("locale").iterdir():
        compiled = folder.joinpath("LC_MESSAGES", "messages.mo")
        if compiled.is_file():
            with compiled.open("rb") as file:
                found[folder.name] = GNUTranslations(file)
    return found


def chosen(accepted: str) -> str:
    """Return the language that an Accept-Language header prefers among ours; English where it names none."""
    ranges = [found for part in accepted.split(",") if (found := _RANGE.fullmatch(part))]
    wanted = [(float(found[2] or 1), found[1].lower()) for found in ranges]
    ours = [(weight, name) for weight, name in wanted if weight > 0 and name in languages()]
    return max(ours, key=lambda row: row[0], default=(1.0, ENGLISH))[1]


def translate(environment: Environment, language: str) -> None:
    """Let templates translate. Translations and variables are texts: both are escaped, and variables made plain."""
    found = languages()[language]

    def gettext(text: str, /, **values: object) -> Markup:
        return _filled(found.gettext(text), values)

    def ngettext(one: str, several: str, number: int, /, **values: object) -> Markup:
        return _filled(found.ngettext(one, several, number), values)

    environment.extend(newstyle_gettext=True)  # variables are arguments of both functions
    environment.add_extension("jinja2.ext.i18n")
    environment.globals.update(gettext=gettext, ngettext=ngettext, language=language, texts=scripted(language))


def _filled(text: str, values: Mapping[str, object]) -> Markup:
    return escape(text) % {name: plain(value) if type(value) is str else value for name, value in values.items()}


def scripted(language: str) -> dict[str, str]:
    """Return the texts of our scripts in a language, without those that are not translated."""
    found = languages()[language]
    return {text: told for text in script_texts() if (told := found.gettext(text)) != text}


@functools.cache
def script_texts() -> Mapping[str, str]:
    """Return each text of our scripts, and the first script that has it."""
    scripts = sorted(FOLDER.joinpath("static").iterdir(), key=lambda file: file.name, reverse=True)
    return {
        json.loads(text): f"static/{file.name}"
        for file in scripts
        if file.name.endswith(".js")
        for text in _CALL.findall(file.read_text(encoding="utf-8"))
    }
