"""Visitor: what a browser sends back is taken for outputs only if it is what the artifact gives."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cross_backend.errors import UsageError
from cross_backend.tensors import TensorSpec
from cross_backend.web.visitor import MOST_TICKETS, Ticket, Tickets, handed_out, taken_back

SPECS = (TensorSpec("y", "float32", (1, 3)), TensorSpec("n", "int64", ("batch",)))
Y, N = np.array([[1, 2, 3]], np.float32), np.array([7], np.int64)
LAYOUT = [{"type": "float32", "dims": [1, 3]}, {"type": "int64", "dims": [1]}]


def test_outputs_come_back_as_they_were() -> None:
    found = taken_back(json.dumps(LAYOUT), Y.tobytes() + N.tobytes(), SPECS)
    assert found[0].tolist() == Y.tolist() and found[1].tolist() == [7]


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        (LAYOUT, Y.tobytes()),
        (LAYOUT, Y.tobytes() + N.tobytes() + b"x"),
        (LAYOUT[:1], Y.tobytes()),
        ([{"type": "object", "dims": [1]}], bytes(8)),
        ([{"type": "float32", "dims": [-1, -3]}, LAYOUT[1]], Y.tobytes() + N.tobytes()),
        ([{"type": "float32", "dims": [10**30]}], bytes(8)),
        ([{"type": "float32", "dims": [3]}, LAYOUT[1]], Y.tobytes() + N.tobytes()),
        ("[[[[", b""),
        ({"type": 1}, b""),
        ([None], b""),
    ],
)
def test_anything_else_is_refused(layout: object, data: bytes) -> None:
    text = layout if isinstance(layout, str) else json.dumps(layout)
    with pytest.raises(UsageError):
        taken_back(text, data, SPECS)


def test_inputs_go_out_with_their_bytes() -> None:
    (row,) = handed_out([N])
    assert (row["type"], row["dims"], row["data"]) == ("int64", [1], "BwAAAAAAAAA=")


def test_old_inputs_are_forgotten() -> None:
    tickets = Tickets()
    names = [tickets.issue(Ticket("net", None, None)) for _ in range(MOST_TICKETS + 1)]
    assert tickets.find(names[-1]).model == "net"
    with pytest.raises(UsageError, match="no longer"):
        tickets.find(names[0])
