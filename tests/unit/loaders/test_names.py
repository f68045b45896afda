"""Loaders of hostile names: each name is refused, or stands in a text or a comment and changes no word of the code."""

from __future__ import annotations

import ast
import random
import shutil
from pathlib import Path

import pytest

from cross_backend.errors import UsageError
from cross_backend.loaders import LOADERS, write_loaders
from tests.unit.hostile.makers import TEXTS
from tests.unit.loaders.test_files import parsed
from tests.unit.test_foreign_text import is_clean

PLAIN = ("net", "v3", "_", "-", " ", ".", "+", "9", "é", "模型", "٣", "ß", "@", "MODEL", "@MODEL@", "x" * 300)
BREAKING = (
    *('"', "'", '"""', "`", "\\", "\\\\", "$", "${x}", "$x", "\\(x)", "#{x}", "{x}", "%s", "*/", "/*", "//", "#"),
    *(
        "??/",
        "\n",
        "\r",
        "\u2028",
        "\x85",
        "\x0b",
        "\0",
        "\x1b[2J",
        "\u202e",
        "\u200b",
        "\ufeff",
        'R"(',
        ");",
        "exec()",
    ),
    *TEXTS,
)
"""What ends a text or a comment in one of the languages, or hides what follows."""


def name_of(rng: random.Random) -> str:
    """Put a name together; some hold nothing that breaks."""
    parts = [rng.choice(PLAIN) for _ in range(rng.randrange(1, 6))]
    if rng.random() < 0.93:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(BREAKING))
    return "".join(parts)


def form(file: str, text: str) -> object:
    """Give what the code of a loader is made of, its texts and comments by their kind alone."""
    suffix = Path(file).suffix
    if suffix == ".py":
        return [type(node).__name__ for node in ast.walk(ast.parse(text))]
    if suffix == ".hpp":  # the name stands in comments alone
        return [line for line in text.splitlines() if not line.startswith("//")]
    return str(parsed(suffix, text))


def written(name: str, folder: Path) -> bool:
    """Say whether loaders of that name were written; a refusal is one line."""
    try:
        write_loaders(name, [], folder)
    except UsageError as error:
        said = str(error)
    else:
        return True
    assert said.isprintable() and not folder.exists()
    return False


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_a_name_stays_in_its_text(count: int, tmp_path: Path) -> None:
    write_loaders("net", [], tmp_path / "sound")
    sound = {file: form(file, (tmp_path / "sound" / file).read_text(encoding="utf-8")) for file in LOADERS}
    taken, folder = 0, tmp_path / "loaders"
    for seed in range(count):
        name = name_of(random.Random(seed))
        if not written(name, folder):
            continue
        taken += 1
        for file, wanted in sound.items():
            text = (folder / file).read_text(encoding="utf-8")
            assert is_clean(text) and form(file, text) == wanted, (seed, file, name)
        shutil.rmtree(folder)
    assert count / 20 < taken < count / 2
