"""Translations: the check refuses catalogues that are stale, not compiled, or filled in with other values."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUDY = 'msgstr "Studie %(number)s"'


@pytest.fixture
def translations(monkeypatch, tmp_path):
    """The script, with a copy of the catalogues."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    found = importlib.import_module("translations")
    shutil.copytree(found.LOCALE, tmp_path / "locale")
    monkeypatch.setattr(found, "LOCALE", tmp_path / "locale")
    yield found
    sys.modules.pop("translations")


def german(translations):
    return translations.LOCALE / "de" / "LC_MESSAGES" / "messages.po"


def replaced(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def refusal(translations, *arguments):
    with pytest.raises(SystemExit) as refused:
        translations.main(list(arguments))
    assert isinstance(refused.value.code, str) and "\n" not in refused.value.code
    return refused.value.code


def test_ours_are_what_the_sources_say(translations):
    translations.main(["--check"])
    before = {path: path.read_bytes() for path in translations.LOCALE.rglob("*.*")}
    translations.main([])
    assert {path: path.read_bytes() for path in translations.LOCALE.rglob("*.*")} == before


@pytest.mark.parametrize(
    "new", ["Studie", "Studie %(number)s %(other)s", "Studie %(nummer)s", "100 % %(number)s", "%(number)d"]
)
def test_other_placeholders_than_those_of_the_text_are_refused(translations, new):
    replaced(german(translations), STUDY, f'msgstr "{new}"')
    for arguments in (["--check"], []):
        told = refusal(translations, *arguments)
        assert told == f"de: {new!r} has other placeholders than 'study %(number)s'; correct messages.po."


def test_a_placeholder_in_a_text_without_any_is_refused(translations):
    replaced(german(translations), 'msgstr "Falsche Ausgaben"', 'msgstr "%(wrong)s"')
    assert "'%(wrong)s' has other placeholders than 'Wrong outputs'" in refusal(translations, "--check")


def test_each_form_of_a_number_is_checked(translations):
    replaced(german(translations), 'msgstr[1] "%(count)s Teile übersetzt"', 'msgstr[1] "%(teile)s Teile"')
    assert "'%(teile)s Teile' has other placeholders" in refusal(translations, "--check")


def test_what_was_never_compiled_is_stale(translations):
    german(translations).with_suffix(".mo").unlink()
    assert "messages.mo is not what the sources say" in refusal(translations, "--check")


def test_what_is_stale_names_the_command(translations):
    replaced(german(translations), STUDY, 'msgstr "Untersuchung %(number)s"')
    assert refusal(translations, "--check") == (
        "de: messages.po or messages.mo is not what the sources say; run '.venv/bin/python docs/translations.py'."
    )
    translations.main([])
    translations.main(["--check"])


@pytest.mark.parametrize(
    ("old", "new"), [('msgid "Summary"', 'msgid "Abstract"'), ('msgid "Loop"\nmsgstr "Schleife"\n', "")]
)
def test_a_text_too_much_or_too_few_is_stale(translations, old, new):
    replaced(german(translations), old, new)
    assert "is not what the sources say" in refusal(translations, "--check")


def test_a_translation_that_is_in_doubt_or_missing_is_no_mistake(translations):
    replaced(german(translations), STUDY, 'msgstr ""')
    replaced(german(translations), 'msgid "Loop"', '#, fuzzy\nmsgid "Loop"')
    translations.main([])
    translations.main(["--check"])
    texts = translations.texts_of(german(translations).with_suffix(".mo").read_bytes())
    assert ("study %(number)s",) not in texts and ("Loop",) not in texts and ("Summary",) in texts


def test_a_language_is_begun_by_its_code(translations):
    translations.main(["fr"])
    translations.main(["--check"])
    text = (translations.LOCALE / "fr" / "LC_MESSAGES" / "messages.po").read_text(encoding="utf-8")
    assert '"Language: fr\\n"' in text and "Plural-Forms: nplurals=3" in text and "fuzzy" not in text
    for other in ("klingon", "pt_BR", "../fr"):
        assert refusal(translations, other) == f"{other!r} is no language; name one by its code, such as fr."
    assert sorted(path.name for path in translations.LOCALE.iterdir()) == ["de", "fr"]
