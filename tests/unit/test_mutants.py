"""The list of mutants fits the tree; ``python -m tests.mutants`` shows that each is caught."""

from __future__ import annotations

import re

import pytest

from tests.mutants.__main__ import ROOT, Mutant, read_mutants

MUTANTS = read_mutants()


def test_there_are_thirty_of_different_names():
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) >= 30
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits_the_tree(mutant: Mutant):
    assert mutant.file.startswith(("src/", "runner/src/"))
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
    assert mutant.why and "\n" not in mutant.why
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text()
        assert not name or f"def {name.partition('[')[0]}(" in text
