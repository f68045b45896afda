"""Programs that remember: a counter, a ring of rows and a small decoder, on every backend that runs here."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.errors import RunError, UnsupportedError
from cross_backend.tensors import to_numpy
from tests.conformance.conftest import Lower, Open, Right

STATEFUL = ("counter", "ring", pytest.param("decoder", marks=pytest.mark.slow))
INSIDE = ("atalla", "executorch", "iree", "llama_cpp", "onnxruntime.genai")
"""Backends whose runtimes do not expose their state, as their names begin."""


@pytest.mark.parametrize("name", STATEFUL)
def test_each_call_continues_from_the_state_that_the_one_before_left(
    lowered: Lower, opened: Open, right: Right, name: str
) -> None:
    model, session = lowered(name).model, opened(name)
    calls = [model.step(index) for index in range(6)]
    for _ in range(2):  # what a second sequence computes does not depend on the first
        session.reset()
        reference = model.fresh()
        for inputs in calls:
            with torch.no_grad():
                wanted = reference(*inputs)
            right(session(*inputs), [wanted])


def test_state_is_read_written_and_forked(backend_name: str, lowered: Lower, opened: Open, right: Right) -> None:
    model, session = lowered("counter").model, opened("counter")
    x = model.inputs[0]
    session.reset()
    first, second = session(x), session(x)
    assert [spec.name for spec in session.state.specs] == ["calls"] and session.state.size_bytes == 4
    if backend_name.startswith(INSIDE):
        for refused in (session.state.read, session.state.fork):
            with pytest.raises(UnsupportedError, match="does not expose"):
                refused()
        return
    held = session.state.read()
    assert held["calls"].tolist() == [2.0]
    third = session(x)
    assert held["calls"].tolist() == [2.0]  # a copy
    with session.state.fork() as other:
        fourth = other(x)
        right(session(x), [fourth])  # each has its own from here on
    session.state.write(held)
    right(session(x), [third])
    session.state.write({"calls": np.zeros(1, np.float32)})
    right(session(x), [first])
    right(session(x), [second])
    for wrong in ({}, {"other": held["calls"]}, {"calls": np.zeros(2, np.float32)}, {"calls": np.zeros(1)}):
        with pytest.raises(RunError, match="state"):
            session.state.write(wrong)


def test_two_bindings_share_one_state(lowered: Lower, opened: Open, right: Right) -> None:
    model, session = lowered("counter").model, opened("counter")
    session.reset()
    reference = model.fresh()
    inputs = [model.inputs[0], model.others[0]]
    runs = [session.bind((x,)) for x in inputs]
    for turn in (0, 0, 1, 0, 1, 1):
        with torch.no_grad():
            wanted = reference(inputs[turn])
        right([to_numpy(y).copy() for y in runs[turn]()], [wanted])


def test_a_program_without_state_has_none(opened: Open) -> None:
    session = opened("mlp")
    session.reset()
    assert session.state.specs == () and session.state.read() == {} and session.state.size_bytes == 0
    with pytest.raises(RunError, match="no state to fork"):
        session.state.fork()
    with pytest.raises(RunError, match="another program"):
        session.state.write({"calls": np.zeros(1, np.float32)})


def test_a_closed_session_keeps_nothing(lowered: Lower, opened: Open) -> None:
    artifact = lowered("counter").artifact
    x = lowered("counter").model.inputs[0]
    with xb.load(artifact) as session:
        first = session(x)
    with pytest.raises(RunError, match="closed"):
        session.reset()
    with session:
        np.testing.assert_allclose(session(x), first, rtol=1e-5)
