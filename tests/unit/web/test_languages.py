"""Languages: the one that a browser asks for, translations and values stay text, no text is beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from cross_backend.report import html
from cross_backend.web import languages
from cross_backend.web.languages import chosen, script_texts, scripted, translate
from cross_backend.web.pages import template_text

WEB = Path(languages.__file__).parent
HOSTILE = "<script>alert(1)</script> \"'& %(name)s %s \u202e\x1b"
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt; &#34;&#39;&amp; %(name)s %s \\u202e\\x1b"
SENTENCE = "{% trans name=name %}Artifacts of {{ name }}{% endtrans %}"


def filled(template: str, language: str, **values: object) -> str:
    environment = html.surroundings(lambda _name: template)
    translate(environment, language)
    return environment.get_template("one").render(**values)


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de", "de"),
        ("DE-at", "de"),
        ("de-DE,de;q=0.9,en;q=0.8", "de"),
        ("en-GB,en;q=0.9,de;q=0.8", "en"),
        ("en;q=0.2 , de ; q=0.7", "de"),
        ("fr-FR, fr;q=0.9, de;q=0.3", "de"),
        ("fr", "en"),
        ("*", "en"),
        ("de;q=0, fr", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_the_preferred_one_that_there_is(accepted: str, language: str) -> None:
    assert chosen(accepted) == language


@pytest.mark.parametrize(
    "accepted",
    [
        *(
            "../../../etc/passwd",
            "de/../fr",
            "locale",
            "messages.pot",
            "de\x00",
            "de\r\nx: y",
            "\xff\xfe",
            "ｄｅ",
            "None",
        ),
        *("de;q=", ";q=1", "de;q=nan", "de;q=-1", "de;q=1e9", "de;level=1", "de de"),
        *("d" * 100_000, "-" * 100_000, "a-" * 50_000, "," * 100_000),
    ],
)
def test_a_header_that_nobody_means_is_english(accepted: str) -> None:
    assert chosen(accepted) == "en"


@pytest.mark.parametrize(("language", "start"), [("en", "Artifacts of"), ("de", "Artefakte von")])
def test_a_hostile_value_stays_text_in_each_language(language: str, start: str) -> None:
    assert filled(SENTENCE, language, name=HOSTILE) == f"{start} {SHOWN}"
    assert filled(f'<p title="{SENTENCE}">', language, name=HOSTILE) == f'<p title="{start} {SHOWN}">'


def test_markup_of_ours_goes_through_a_sentence() -> None:
    bold = "{% trans name='<b>a</b>' | safe %}Artifacts of {{ name }}{% endtrans %}"
    assert filled(bold, "de") == "Artefakte von <b>a</b>"


def test_what_has_no_translation_is_english_and_numbers_have_their_form() -> None:
    assert filled("{{ _('Nobody says this') }}", "de") == "Nobody says this"
    one, more = "{{ count }} unavailable backend", "{{ count }} unavailable backends"
    several = f"{{% trans count=n %}}{one}{{% pluralize %}}{more}{{% endtrans %}}"
    found = [filled(several, language, n=n) for language in ("en", "de") for n in (1, 2)]
    assert found[:2] == ["1 unavailable backend", "2 unavailable backends"]
    assert found[2:] == ["1 Backend nicht verfügbar", "2 Backends nicht verfügbar"]


@pytest.fixture
def hostile_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A language ``xx`` whose translations are markup, and a folder without a catalogue."""
    catalogue = Catalog(locale="de")
    catalogue.add("Run", "<img src=x onerror=alert(1)>")
    catalogue.add("Artifacts of %(name)s", '</script>"> %(name)s')
    (tmp_path / "locale" / "xx" / "LC_MESSAGES").mkdir(parents=True)
    (tmp_path / "locale" / "yy").mkdir()
    with (tmp_path / "locale" / "xx" / "LC_MESSAGES" / "messages.mo").open("wb") as file:
        write_mo(file, catalogue)
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "one.js").write_text('said.textContent = _("Artifacts of %(name)s", { name });')
    monkeypatch.setattr(languages, "FOLDER", tmp_path)
    for kept in (languages.languages, script_texts):
        kept.cache_clear()
    yield
    for kept in (languages.languages, script_texts):
        kept.cache_clear()


@pytest.mark.usefixtures("hostile_catalogue")
def test_translations_are_text_too() -> None:
    assert filled("{{ _('Run') }}", "xx") == "&lt;img src=x onerror=alert(1)&gt;"
    assert filled(SENTENCE, "xx", name="a") == "&lt;/script&gt;&#34;&gt; a"
    handed = filled("<script>{{ texts | tojson }}</script>", "xx")
    assert "</script>" not in handed.removesuffix("</script>")
    assert json.loads(handed[len("<script>") : -len("</script>")]) == {"Artifacts of %(name)s": '</script>"> %(name)s'}
    assert chosen("yy, xx;q=0.1") == "xx", "a catalogue that was never compiled is no language yet"


def test_scripts_have_their_own_texts_and_no_others() -> None:
    sources = [path.read_text(encoding="utf-8") for path in WEB.joinpath("static").glob("*.js")]
    calls = sum(len(re.findall(r"(?<!function )\b_\(", source)) for source in sources)
    assert calls == sum(len(languages._CALL.findall(source)) for source in sources), "each names its text itself"
    assert scripted("en") == {} and scripted("de").keys() <= script_texts().keys()
    assert scripted("de")["Tick a backend."] == "Wähle ein Backend." and "Summary" not in scripted("de")


class Words(HTMLParser):
    """Texts of a template, and of its attributes, that are not translated."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in {"code", "textarea"}
        named = {"alt", "aria-label", "data-header", "data-hint", "placeholder", "title"}
        self.found += [value for name, value in attrs if name in named and value and re.search("[A-Za-z]", value)]

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in {"code", "textarea"}

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.found += re.findall(r"[A-Za-z][A-Za-z .,:-]*", data)


FOREIGN = {"cross-backend", "cross-backend .", "operations.json", "localized.json", "FLOPs", "s"}
"""Names, units and files, which every language has alike."""


@pytest.mark.parametrize("path", sorted(WEB.joinpath("templates").iterdir()), ids=lambda path: path.name)
def test_a_template_has_no_text_beside_the_catalogue(path: Path) -> None:
    text = re.sub(
        r"\{% trans .*?\{% endtrans %\}|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", template_text(path.name), flags=re.DOTALL
    )
    assert {found.strip() for found in Words(text).found} <= FOREIGN
