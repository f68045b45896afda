"""docs/study.md names every key of a study file with its default, and every verdict of a diff."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cross_backend.study.diff import CellVerdict
from cross_backend.study.spec import StudyOutput, StudySettings, StudySpec
from cross_backend.study.yaml_file import read_study

PAGE = (Path(__file__).parents[3] / "docs" / "study.md").read_text(encoding="utf-8")
SETTINGS = [one.name for one in fields(StudySettings)]
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize("key", [*SETTINGS, *(one.name for one in fields(StudyOutput))])
def test_every_setting_has_a_row(key: str) -> None:
    assert key in ROWS


@pytest.mark.parametrize("key", [key for key in SETTINGS if ROWS.get(key) != "none"])
def test_the_defaults_are_those_of_the_code(key: str) -> None:
    default = getattr(StudySettings(), key)
    if isinstance(default, bool):
        assert ROWS[key] == ("yes" if default else "no")
    else:
        assert ROWS[key] == (", ".join(default) if isinstance(default, tuple) else f"{default:g}")


def test_what_has_no_default_says_none() -> None:
    assert {key for key in SETTINGS if getattr(StudySettings(), key) is None} == {
        "margin",
        "memory_limit",
        "together",
    }
    assert ROWS["margin"] == ROWS["memory_limit"] == ROWS["together"] == "none"


def test_every_key_of_a_study_is_in_the_example(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(name: nightly.*?)```", PAGE, re.DOTALL)
    assert example is not None
    keys = set(re.findall(r"^(\w+):", example[1], re.MULTILINE))
    assert keys == {one.name for one in fields(StudySpec)}
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "detector.onnx").write_bytes(b"onnx")
    (tmp_path / "studies" / "checkpoints").mkdir(parents=True)
    (tmp_path / "studies" / "checkpoints" / "mine.pt").write_bytes(b"weights")
    (tmp_path / "studies" / "photos").mkdir()
    (tmp_path / "studies" / "edge_cases.npz").write_bytes(b"inputs")
    path = tmp_path / "studies" / "nightly.yaml"
    path.write_text(example[1], encoding="utf-8")
    assert len(read_study(path).panels()) == 2 * (2 + 2 + 1)


def test_every_verdict_is_explained() -> None:
    assert not [verdict for verdict in CellVerdict if f"`{verdict}`" not in PAGE]
