"""Examples of the API reference: every public name has one, and those that are cheap run."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

import cross_backend as xb

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
NAMES = [name for name in xb.__all__ if not name.startswith("__")]
DEAR = {"ComparisonRunner", "Panel", "Result", "bundle", "compare", "keep_out", "load_best", "localize", "tune"}
"""Those that measure or need a bundle: tested elsewhere."""


@pytest.fixture(scope="module")
def begun():
    """What the page says that the examples begin with."""
    (prelude,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(prelude, names)
    return names


def examples(name: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(getattr(xb, name)) or "", name)


def test_there_are_few_public_names():
    assert len(NAMES) <= 30
    assert [name for name in NAMES if f"`xb.{name}`" not in PAGE] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example(name):
    assert examples(name)
    assert all(doctest.SKIP in one.options for one in examples(name)) == (name in DEAR)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DEAR])
def test_cheap_examples_run(name, begun, capsys):
    found = doctest.DocTest(examples(name), dict(begun), name, None, None, None)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found)
    failed = capsys.readouterr().out
    assert not failed, failed
