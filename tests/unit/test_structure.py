"""Structures: what a model takes and gives, through JSON and back; whatever does not fit is told by its place."""

from __future__ import annotations

import collections
import dataclasses
import json
from typing import Any, NamedTuple

import numpy as np
import pytest

from cross_backend.errors import RunError
from cross_backend.structure import MAX_DEPTH, TENSOR, Structure, constant, mapping, named_tuple, sequence

A, B, C = (np.full(2, value, np.float32) for value in (1, 2, 3))


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


POINT = named_tuple("Point", [("x", TENSOR), ("y", TENSOR)])
PAIR = mapping([("a", TENSOR), ("b", TENSOR)])
NESTED = Structure(
    (("x", TENSOR), ("inside", sequence("tuple", [sequence("list", [TENSOR]), POINT])), ("scale", constant(2))),
    mapping([("first", TENSOR), ("none", constant(None)), (3, sequence("list", [POINT, TENSOR]))]),
)
PAIRS = Structure((("pair", PAIR),), TENSOR)


def test_survives_the_trip_through_json() -> None:
    assert Structure.from_json(json.loads(json.dumps(NESTED.to_json(), allow_nan=False))) == NESTED


def test_takes_the_models_own_arguments_by_position_or_name_or_flat() -> None:
    wanted = (A, B, C, A)
    inside = ([B], Point(C, A))
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((A, inside, 2), {}),
        ((A, inside), {}),
        ((A,), {"inside": inside, "scale": 2}),
        ((), {"inside": [(B,), {"y": A, "x": C}], "x": A}),
        (wanted, {}),
    ]
    for args, kwargs in calls:
        taken = NESTED.take(args, kwargs)
        assert len(taken) == 4 and all(got is want for got, want in zip(taken, wanted, strict=True))


@pytest.mark.parametrize("pair", [{"b": B, "a": A}, Pair(A, B), collections.UserDict(b=B, a=A)], ids=repr)
def test_a_dict_may_come_as_anything_with_these_names(pair: Any) -> None:
    taken = PAIRS.take((pair,), {})
    assert taken[0] is A and taken[1] is B


def test_gives_the_models_own_outputs() -> None:
    given = NESTED.give((A, B, C, A))
    assert list(given) == ["first", "none", 3]
    assert given["first"] is A and given["none"] is None
    (point, last) = given[3]
    assert (type(point).__name__, point._fields) == ("Point", ("x", "y"))
    assert point.x is B and point.y is C and last is A


def test_flat_programs_give_one_output_as_itself() -> None:
    one, two = (Structure.of_flat(["x"], count) for count in (1, 2))
    assert one.give([A]) is A
    assert two.give([A, B]) == (A, B)
    assert one.take((), {"x": A}) == (A,)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((A,), {}, "takes x: a tensor, inside: a tuple of 2, scale: 2; 'inside' is missing."),
        ((A, (), 2, 3), {}, "; 4 were given."),
        ((A, ()), {"x": A}, "; 'x' was given twice."),
        ((A, ()), {"y": A}, "; 'y' is none of them."),
        ((A, A), {}, "inside must be a tuple of 2, but a ndarray was given."),
        ((A, ([B], (C,))), {}, "inside[1] must be a Point of 'x', 'y', but a tuple was given."),
        ((A, ([B], {"x": C})), {}, "inside[1] must be a Point of 'x', 'y'; 'y' is missing."),
        ((A, ([B], {"x": C, "y": C, "z": C})), {}, "inside[1] must be a Point of 'x', 'y', without 'z'."),
        (
            (A, ([B], Point(C, A)), 3),
            {},
            "scale was 2 when the model was captured, and the program is made for that; 3",
        ),
    ],
)
def test_what_does_not_fit_is_told_by_its_place(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError) as caught:
        NESTED.take(args, kwargs)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def _deep(levels: int) -> Any:
    row: Any = "tensor"
    for _ in range(levels):
        row = {"list": [row]}
    return row


@pytest.mark.parametrize(
    "outputs",
    [
        "array", 3, None, [], {}, {"set": ["tensor"]}, {"fields": []}, {"tuple": "x"},
        {"tuple": ["tensor"], "list": []},
        {"dict": [["a", "tensor"], ["a", "tensor"]]}, {"dict": [[[], "tensor"]]}, {"dict": {"a": "tensor"}},
        {"constant": []}, {"constant": float("nan")}, _deep(MAX_DEPTH + 2), {"named": "P"},
        {"named": "a b", "fields": [["x", "tensor"]]}, {"named": "P", "fields": [["x, y=print(1)", "tensor"]]},
        {"named": "P", "fields": [["_x", "tensor"]]}, {"named": ["P"], "fields": [["x", "tensor"]]},
    ],
    ids=lambda row: str(row)[:40],
)  # fmt: skip
def test_what_is_no_structure_is_refused(outputs: Any) -> None:
    """What nobody vouches for: a file's names become no code, and its nesting no crash."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        Structure.read({"arguments": [["x", "tensor"]], "outputs": outputs}, 1, 1)


def test_a_structure_of_other_numbers_of_tensors_is_refused() -> None:
    row = NESTED.to_json()
    assert Structure.read(row, 4, 4) == NESTED
    for inputs, outputs in ((3, 4), (4, 5)):
        with pytest.raises(ValueError, match="other numbers"):
            Structure.read(row, inputs, outputs)
    assert Structure.read(None, 3, 4) is None
