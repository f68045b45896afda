"""Files that the forge and the citing read: they parse, and name what exists."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from cross_backend import __version__, cli

ROOT = Path(__file__).parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_citation_names_this_version_and_licence():
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert found["cff-version"] == "1.2.0" and found["version"] == __version__ and found["license"] == "MIT"
    assert {"message", "title", "authors", "repository-code"} <= set(found)


@pytest.mark.parametrize("path", [path for path in FORMS if path.stem != "config"], ids=lambda path: path.stem)
def test_forms_have_what_the_forge_wants(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    assert all(part["attributes"] for part in form["body"])
    fields = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(set(fields)) == len(fields) > 0


def test_a_bug_asks_for_what_doctor_prints():
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8"))
    (doctor,) = [part for part in form["body"] if part.get("id") == "doctor"]
    assert doctor["attributes"]["label"] == "cross-backend doctor --json" and doctor["validations"]["required"]
    assert cli.parser_of("doctor").parse_args(["--json"]).json
