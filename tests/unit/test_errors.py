"""Errors: the tree in the docstring, "did you mean", and one line whatever a vendor raised."""

from __future__ import annotations

import inspect
import re

import pytest

from cross_backend import errors
from cross_backend.errors import CrossBackendError, LowerError, UnavailableError, one_line, unknown_name


def test_the_docstring_draws_the_whole_tree() -> None:
    classes = {n: c for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, CrossBackendError)}
    drawn = set(re.findall(r"\b(\w+Error)\s", errors.__doc__ or ""))
    assert drawn == set(classes)
    assert all(cls.__doc__ for cls in classes.values())


def test_unavailable_keeps_reason_and_remedy() -> None:
    error = UnavailableError("needs x", "pip install x")
    assert (str(error), error.reason, error.remedy) == ("needs x; pip install x", "needs x", "pip install x")
    assert str(UnavailableError("needs a Mac")) == "needs a Mac"


def test_an_unknown_name_gets_the_nearest_and_all_choices() -> None:
    text = str(unknown_name("backend", "xnpack", ["openvino", "xnnpack"]))
    assert text == "unknown backend 'xnpack'. Did you mean 'xnnpack'? Choices: openvino, xnnpack."


def test_an_unknown_name_without_a_near_one_guesses_nothing() -> None:
    text = str(unknown_name("option", "q", []))
    assert "Did you mean" not in text
    assert text.endswith("Choices: none.")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (LowerError("no"), "no"),
        (ValueError("first\n  second"), "ValueError: first"),
        (ValueError("\n\n  first  \nsecond"), "ValueError: first"),
        (ValueError("in x.cpp:12:\n it lacks:\n\n  aten.foo \nmore"), "ValueError: in x.cpp:12: it lacks: aten.foo"),
        (ValueError("it lacks:"), "ValueError: it lacks:"),
        (RuntimeError(""), "RuntimeError"),
        (CrossBackendError(""), ""),
    ],
)
def test_one_line(error: Exception, line: str) -> None:
    assert one_line(error) == line


def test_one_line_has_a_limit() -> None:
    assert one_line(LowerError("x" * 400)) == "x" * 299 + "…"
    assert len(one_line(ValueError("x" * 400), limit=50)) == 50
