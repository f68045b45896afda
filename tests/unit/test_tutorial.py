"""The runner of tutorials: files and commands in order, outputs written into the page, words compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.test_tutorials import tutorial

PAGE = """# A page

<!-- varies: ^noise -->

```python title="say.py"
print("took 3.2 ms [1, 2]")
```

Text.

```console
$ echo five > five.txt
$ cat five.txt
$ python say.py
$ echo one \\
    two
old
```

```yaml
not: run
```
"""


def test_what_commands_print_is_written_into_the_page(tmp_path: Path) -> None:
    written = tutorial.written(PAGE, tutorial.follow(PAGE, tmp_path, tutorial.run_here))
    assert "five.txt\n$ cat five.txt\nfive\n" in written
    assert "$ python say.py\ntook 3.2 ms [1, 2]\n$ echo one \\\n    two\none two\n```" in written
    assert (written.count("```"), "old" in written) == (6, False)
    assert tutorial.written(written, tutorial.follow(written, tmp_path, tutorial.run_here)) == written


def test_a_shell_is_used_where_a_command_needs_one(tmp_path: Path) -> None:
    (block,) = tutorial.blocks("```console\n$ A=1 python -c 'print(5)' || echo $?\n$ cross-backend models\n```\n")
    assert block.commands[0].words[:2] == ["bash", "-c"]
    assert tutorial.run_here(block.commands[0].words, tmp_path, {"PATH": "/usr/bin:/bin"}) == "5\n"
    assert block.commands[1].words == [sys.executable, "-m", "cross_backend", "models"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("took 3.2 ms [1, 2]", "took  41 µs [0.5, 3]", True),
        ("1,024 calls, 98.9 %", "7 calls, 3 %", True),
        ("noise of now", "noise of then", True),
        ("[ok] right", "[fail] right", False),
        ("a\nb", "b\na", True),
        ("right", "right\nwrong", False),
        ("2 parts", "2 part", False),
        ("* AMD EPYC, 1 thread each; checked", "* Apple M4, 1 thread each; checked", True),
        ("conv2d  ███  1.9e-07", "conv2d  ████  2.4e-07", True),
    ],
)
def test_numbers_may_differ_and_words_may_not(one: str, other: str, same: bool) -> None:
    assert (tutorial.words_of(PAGE, one) == tutorial.words_of(PAGE, other)) == same
