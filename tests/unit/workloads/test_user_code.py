"""User's code: the line that is named is the innermost one that is neither Python's, nor a package's, nor ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.errors import unknown_name
from cross_backend.workloads.user_code import place_of, with_place

SOURCE = """import json

def here():
    raise KeyError("x")

def inside_of_python():
    json.loads("{")

def told_again():
    try:
        here()
    except KeyError as error:
        raise ValueError("y") from error
"""


def caught(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # without this very file
    raise AssertionError("nothing was raised")


@pytest.fixture
def users(tmp_path: Path) -> dict[str, Callable[..., object]]:
    names: dict[str, Callable[..., object]] = {}
    exec(compile(SOURCE, str(tmp_path / "net.py"), "exec"), names)
    return names


@pytest.mark.parametrize(("function", "line"), [("here", 4), ("inside_of_python", 7), ("told_again", 13)], ids=str)
def test_the_innermost_line_of_the_user_is_named(
    function: str, line: int, users: dict[str, Callable[..., object]], tmp_path: Path
) -> None:
    assert place_of(caught(users[function])) == f"{tmp_path / 'net.py'}:{line}"


def test_what_wraps_an_error_is_looked_through(users: dict[str, Callable[..., object]], tmp_path: Path) -> None:
    def vendor() -> None:
        try:
            users["here"]()
        except KeyError as error:
            raise RuntimeError("wrapped") from error

    error = caught(vendor)
    error.__traceback__ = None  # as if only installed packages had raised it
    assert error.__cause__ is not None
    error.__cause__.__traceback__ = error.__cause__.__traceback__ and error.__cause__.__traceback__.tb_next
    assert place_of(error) == f"{tmp_path / 'net.py'}:4"


def test_a_file_that_is_no_python_names_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.py"
    error = caught(lambda: compile("x = 1\ndef :\n", str(path), "exec"))
    assert place_of(error) == f"{path}:2"
    monkeypatch.chdir(tmp_path)
    assert with_place(error).startswith("net.py:2: SyntaxError: ")


def test_without_a_line_of_the_user_there_is_no_place() -> None:
    error = caught(lambda: json.loads("{"))
    error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
    assert place_of(error) is None and with_place(error).startswith("JSONDecodeError")
    assert place_of(unknown_name("kind", "name", [])) is None
