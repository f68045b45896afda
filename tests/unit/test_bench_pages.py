"""The pages of docs/benchmarks: their marks are right, and ``make bench`` replaces tables and nothing else."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = """# A page

Prose <b>stays</b>,  as it is.

<!-- table good: benchmarks/good.py -->

Old (a machine)

| a | b |
| --- | --- |
| 1 | 2 |

<!-- end -->
Between.
<!-- table good_x: benchmarks/good.py --kind x -->
<!-- end -->

<!-- table bad: benchmarks/bad.py -->
| kept |
| --- |
<!-- end -->

| by | hand |
| --- | --- |
"""
GOOD = """
import sys
from _table import show
kind = "_x" if sys.argv[1:] == ["--kind", "x"] else ""
show("A title", ("model", "a|b"), [("m_1", "2.5"), ("<m>", "")], name=f"good{kind}")
show("Printed only", ("a",), [("1",)])
"""
BAD = """
from _table import show
raise SystemExit(1)
show("A title", ("a", "b"), [("1", "2")], name="bad")
"""
TABLE = r"\| model \| a\\\|b \|\n\| --- \| --- \|\n\| m\\_1 \| 2\.5 \|\n\| &lt;m\\> \|  \|"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    yield importlib.import_module("bench")
    sys.modules.pop("bench")


@pytest.fixture
def small(bench, monkeypatch, tmp_path):
    """A repository with one page and two scripts, the second of which fails."""
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    for folder in ("benchmarks", "docs/benchmarks"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "benchmarks" / "_table.py", tmp_path / "benchmarks")
    (tmp_path / "benchmarks" / "good.py").write_text(GOOD)
    (tmp_path / "benchmarks" / "bad.py").write_text(BAD)
    page = tmp_path / "docs" / "benchmarks" / "page.md"
    page.write_text(PAGE)
    return page


def test_the_pages_are_right(bench):
    blocks, wrong = bench.every()
    assert wrong == []
    assert len(blocks) > 30
    assert len({block.page for block in blocks}) == 7


def test_tables_are_replaced_and_everything_else_stays(bench, small):
    bench.main(["good"])
    text = small.read_text()
    caption = r"A title \(.+, \d+ processors, Python \d.+, \d{4}-\d\d-\d\d\)"
    expected = re.escape(PAGE)
    for begun, old in (
        ("good.py", "\n\nOld (a machine)\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"),
        ("good.py --kind x", "\n"),
    ):
        mark = f"benchmarks/{begun} -->"
        before, after = re.escape(f"{mark}{old}"), f"{re.escape(mark)}\n\n{caption}\n\n{TABLE}\n\n"
        assert expected.count(before) == 1
        expected = expected.replace(before, after)
    assert re.fullmatch(expected, text)
    bench.main(["benchmarks/good.py"])
    assert small.read_text() == text
    assert list(small.parent.iterdir()) == [small]


def test_a_script_that_fails_before_its_table_leaves_it_and_is_named(bench, small, capfd):
    reason = "exit status 1, no table bad; the page keeps the old one"
    with pytest.raises(SystemExit, match=rf"\AFailed:\nbenchmarks/bad.py: {reason}\.\Z"):
        bench.main([])
    assert "-->\n| kept |\n| --- |\n<!-- end -->" in small.read_text()
    assert "A title" in small.read_text()
    out = capfd.readouterr().out
    assert out.index("== benchmarks/bad.py\n") < out.index("== benchmarks/good.py\n") < out.index("--kind x\n")
    assert out.count("A title (") == 2  # those of good.py


def test_a_script_without_a_table_on_a_page_runs_once(bench, small):
    (small.parents[2] / "benchmarks" / "other.py").write_text("")
    assert bench.commands(["other"], bench.every()[0]) == [("benchmarks/other.py",)]


def test_a_table_that_was_not_printed_is_named(bench, small):
    script = small.parents[2] / "benchmarks" / "bad.py"
    script.write_text('def never():\n    show("", (), (), name="bad")\n')
    with pytest.raises(SystemExit, match=r"\AFailed:\nbenchmarks/bad.py: no table bad; .*\.\Z"):
        bench.main(["bad"])
    assert small.read_text() == PAGE


def test_a_table_whose_claim_does_not_hold_is_written(bench, small):
    script = small.parents[2] / "benchmarks" / "bad.py"
    script.write_text(BAD.replace("raise SystemExit(1)\n", "") + "raise SystemExit(1)\n")
    with pytest.raises(SystemExit, match=r"\AFailed:\nbenchmarks/bad.py: exit status 1\.\Z"):
        bench.main(["bad"])
    assert "| kept |" not in small.read_text()


def test_two_tables_of_a_run_have_two_names(bench, small, capfd):
    script = small.parents[2] / "benchmarks" / "bad.py"
    script.write_text(BAD.replace("raise SystemExit(1)", BAD.splitlines()[3]))
    with pytest.raises(SystemExit, match=r"bad\.py: exit status 1"):
        bench.main(["bad"])
    assert "FileExistsError" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("table good_x:", "table good:", "15: docs/benchmarks/page.md:5 has a table good, too; rename one."),
        ("<!-- end -->\nBetween", "Between", "5: table good has no end; write <!-- end --> below it."),
        ("|\n<!-- end -->\n\n| by", "|\n| by", "18: table bad has no end; write <!-- end --> below it."),
        ("table bad:", "table worse:", '18: benchmarks/bad.py has no show(…, name="worse"); name a table of it.'),
        (
            "benchmarks/bad.py",
            "benchmarks/none.py",
            "18: benchmarks/none.py does not exist; name a script of benchmarks/.",
        ),
        ("Between.", "<!-- end -->", "14: <!-- end --> ends no table; write {form} above the table."),
        ("table bad: benchmarks/", "table bad ", "18: <!-- table bad bad.py --> is no mark of a table; write {form}."),
    ],
)
def test_each_mistake_is_one_line(bench, small, old, new, line):
    assert PAGE.count(old) == 1
    small.write_text(PAGE.replace(old, new))
    expected = f"docs/benchmarks/page.md:{line.format(form=bench.FORM)}"
    assert bench.mistakes() == [expected]
    with pytest.raises(SystemExit) as stopped:
        bench.main(["good"])
    assert stopped.value.code == expected


def test_the_check_of_the_pages_refuses_a_mistake(bench, small, monkeypatch):
    generate = importlib.import_module("generate")
    monkeypatch.setattr(generate, "PAGES", {})
    generate.bench.ROOT = small.parents[2]
    small.write_text(PAGE.replace("<!-- end -->\nBetween", "Between"))
    with pytest.raises(SystemExit, match=r"page\.md:5: table good has no end"):
        generate.main(["--check"])


def test_an_unknown_script_is_named_beside_those_that_are_there(bench, small):
    with pytest.raises(SystemExit, match=r"\Abenchmarks/ has no script goood\. It has: bad, good\.\Z"):
        bench.main(["goood"])
