"""Target: parsed from and printed as one string; immutable; what it refuses."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.errors import UsageError
from cross_backend.names.target import Target

NAMES = st.from_regex(r"[a-z0-9_]+(\.[a-z0-9_]+)*", fullmatch=True)
KEYS = st.from_regex(r"[a-z][a-z0-9_]*", fullmatch=True)
VALUES = st.from_regex(r"[A-Za-z0-9_.,:/-]+", fullmatch=True)


def test_reads_a_name_and_options() -> None:
    target = Target.parse(" executorch.xnnpack?threads=1&precision=int8 ")
    assert target.name == "executorch.xnnpack"
    assert dict(target.options) == {"precision": "int8", "threads": "1"}
    assert str(target) == "executorch.xnnpack?precision=int8&threads=1"


@given(NAMES, st.dictionaries(KEYS, VALUES, max_size=4))
def test_survives_the_trip_through_text(name: str, options: dict[str, str]) -> None:
    target = Target(name, options)
    assert Target.parse(str(target)) == target
    assert hash(Target.parse(str(target))) == hash(target)


def test_the_order_of_options_does_not_matter() -> None:
    assert Target.parse("a?x=1&y=2") == Target.parse("a?y=2&x=1")
    assert len({Target.parse("a?x=1&y=2"), Target.parse("a?y=2&x=1"), Target.parse("a")}) == 2


@pytest.mark.parametrize(
    "text", ["", " ", "XNNPACK", "a b", "a.", ".a", "a..b", "a?", "a?x", "a?x=", "a?=1", "a?x=1&", "a?x=1?y=2", "a?X=1"]
)
def test_refuses_what_is_no_target(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Target.parse(text)
    assert repr(text) in str(caught.value) or repr(text.strip()) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_an_option_given_twice() -> None:
    with pytest.raises(UsageError, match="'x' is given twice"):
        Target.parse("a?x=1&x=2")


def test_cannot_be_changed() -> None:
    given = {"x": "1"}
    target = Target("a", given)
    given["x"] = "2"
    assert target.options["x"] == "1"
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        target.options["x"] = "3"  # type: ignore[index]
