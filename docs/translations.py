"""Write the catalogue of each language of the server's pages, from the templates and scripts.

Arguments are languages to begin, such as ``fr``; those that there are are brought up to date. ``--check`` fails where a
file is not what the sources say, or a translation has other placeholders than its text.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from babel import localedata
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po

from cross_backend.report import html
from cross_backend.web.languages import ENGLISH, script_texts, translate
from cross_backend.web.pages import template_text

WEB = Path(__file__).parents[1] / "src" / "cross_backend" / "web"
LOCALE = WEB / "locale"
COMMAND = ".venv/bin/python docs/translations.py"
PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")


def sources() -> Catalog:
    """Give all texts of the templates and scripts, each with the files that have it."""
    found, environment = Catalog(), html.surroundings(template_text)
    translate(environment, ENGLISH)
    for path in sorted(WEB.joinpath("templates").iterdir()):
        for _line, function, given in environment.extract_translations(path.read_text(encoding="utf-8")):
            texts = _forms(given)  # and None for each value
            found.add(texts[:2] if function == "ngettext" else texts[0], locations=[(f"templates/{path.name}", 0)])
    for text, name in script_texts().items():
        found.add(text, locations=[(name, 0)])
    return found


def mistakes(catalogue: Catalog) -> Iterator[str]:
    """Yield the translations that cannot be filled in with exactly the values of their text."""
    for message in catalogue:
        wanted = _forms(message.id)[-1]
        for text in _forms(message.string or ""):
            if wanted and text and not message.fuzzy and _fields(text) != _fields(wanted):
                yield f"{text!r} has other placeholders than {wanted!r}"


def _forms(text: str | Iterable[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def _fields(text: str) -> set[str]:
    """Give the names of the values in a text; ``%`` stands for percent signs that cannot be read."""
    return {*PLACEHOLDER.findall(text), *re.findall("%", PLACEHOLDER.sub("", text))} - {""}


def text_of(catalogue: Catalog, *, has_header: bool = False) -> str:
    """Give the text of a catalogue's file; the header holds times and versions, which are news at each run."""
    file = io.BytesIO()
    layout = {"width": 0, "include_lineno": False, "ignore_obsolete": True}
    write_po(file, catalogue, omit_header=not has_header, **layout)
    return file.getvalue().decode()


def compiled(catalogue: Catalog) -> bytes:
    """Give the binary of a catalogue, which the server reads: what is translated beyond doubt."""
    file = io.BytesIO()
    write_mo(file, catalogue)
    return file.getvalue()


def texts_of(binary: bytes) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Give the texts of a binary, and their translations; what is English there is as good as missing."""
    rows = {_forms(one.id): _forms(one.string) for one in read_mo(io.BytesIO(binary)) if one.id}
    return {texts: translated for texts, translated in rows.items() if not set(translated) <= set(texts)}


def main(arguments: list[str]) -> None:
    """Write or check."""
    found, is_check = sources(), "--check" in arguments
    begun = [path.name for path in LOCALE.iterdir() if path.is_dir()]
    for language in sorted({*begun, *arguments} - {"--check"}):
        _bring_up_to_date(language, found, is_check=is_check)


def _bring_up_to_date(language: str, found: Catalog, *, is_check: bool) -> None:
    if not (language.isalpha() and localedata.exists(language)):
        sys.exit(f"{language!r} is no language; name one by its code, such as fr.")
    path = LOCALE / language / "LC_MESSAGES" / "messages.po"
    catalogue = Catalog(locale=language, project="cross-backend", header_comment="", fuzzy=False)
    if path.is_file():
        catalogue = read_po(path.read_bytes().splitlines(keepends=True), locale=language)
    before = text_of(catalogue)
    catalogue.update(found, update_creation_date=False)
    for mistake in mistakes(catalogue):
        sys.exit(f"{language}: {mistake}; correct {path.name}.")
    binary = path.with_suffix(".mo")
    if is_check:
        is_compiled = binary.is_file() and texts_of(binary.read_bytes()) == texts_of(compiled(catalogue))
        if not is_compiled or before != text_of(catalogue):
            sys.exit(f"{language}: {path.name} or {binary.name} is not what the sources say; run '{COMMAND}'.")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(catalogue, has_header=True), encoding="utf-8")
    binary.write_bytes(compiled(catalogue))


if __name__ == "__main__":
    main(sys.argv[1:])
