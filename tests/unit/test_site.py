"""The site: links lead somewhere in the repository and on the site, and the landing page shows the README's table."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"^    Backend +ratio.*?(?=\n\n|\n```)", re.MULTILINE | re.DOTALL)


@pytest.fixture
def links(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    yield importlib.import_module("links")
    sys.modules.pop("links")


@pytest.fixture
def small(links, monkeypatch, tmp_path):
    """A repository with one page and a navigation that names it."""
    monkeypatch.setattr(links, "ROOT", tmp_path)
    monkeypatch.setattr(links, "BESIDE", {"CHANGES.md": "reference/changes.md"})
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "docs" / "index.md").write_text("[a](deep/page.md) `[code](nowhere.md)`\n")
    (tmp_path / "docs" / "deep" / "page.md").write_text("![p](../p.png)\n")
    (tmp_path / "docs" / "p.png").write_bytes(b"")
    (tmp_path / "run.py").write_text("")
    (tmp_path / "CHANGES.md").write_text("[b](docs/index.md)\n")
    nav = '[project]\nnav = [{ A = "index.md" }, { B = [{ C = "deep/page.md" }, { D = "reference/changes.md" }] }]\n'
    (tmp_path / "zensical.toml").write_text(nav)
    return tmp_path


def test_the_small_repository_has_no_mistakes(links, small):
    assert links.mistakes() == []


def test_a_link_without_a_file_is_found(links, small):
    (small / "docs" / "index.md").write_text("[a](deep/pages.md#x)\n")
    assert links.mistakes() == ["docs/index.md: deep/pages.md#x does not exist."]


def test_a_page_that_the_navigation_lacks_or_has_twice_is_found(links, small):
    (small / "docs" / "more.md").write_text("text\n")
    nav = (small / "zensical.toml").read_text().replace('"deep/page.md"', '"index.md"')
    (small / "zensical.toml").write_text(nav)
    assert links.mistakes() == [
        "zensical.toml: index.md is in the navigation twice.",
        "zensical.toml: the navigation lacks deep/page.md.",
        "zensical.toml: the navigation lacks more.md.",
    ]


@pytest.mark.parametrize(
    ("page", "given", "moved"),
    [
        ("docs/index.md", "[a](deep/page.md#b)", "[a](deep/page.md#b)"),
        ("docs/deep/page.md", "[a](../../CHANGES.md)", "[a](../reference/changes.md)"),
        ("docs/deep/page.md", "![a](../p.png)", "![a](../p.png)"),
        ("docs/index.md", "[a](../run.py)", "[a](https://github.com/cross-backend/cross-backend/blob/main/run.py)"),
        ("CHANGES.md", "[a](docs/deep/page.md)", "[a](../deep/page.md)"),
        ("CHANGES.md", '<img src="docs/p.png">', '<img src="../p.png">'),
        ("CHANGES.md", "[a](#b) [c](https://d.example/e)", "[a](#b) [c](https://d.example/e)"),
    ],
)
def test_links_are_moved_to_where_they_lead_on_the_site(links, small, page, given, moved):
    assert links.for_site(page, given) == moved


def test_the_landing_page_shows_the_table_of_the_readme():
    landing, readme = (
        TABLE.search((ROOT / name).read_text(encoding="utf-8")) for name in ("docs/index.md", "README.md")
    )
    assert landing is not None and readme is not None
    assert landing[0] == readme[0]
