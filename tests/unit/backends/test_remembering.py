"""Sessions with state under bad use: an interrupted call, several threads, the state of another program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.backend.remembering import Remembering
from cross_backend.errors import RunError
from cross_backend.tensors import to_numpy

X = torch.zeros(2)
THREADS, CALLS = 4, 25


class Tally(torch.nn.Module):
    """Counts its calls."""

    def __init__(self, name: str = "calls") -> None:
        super().__init__()
        self.register_buffer(name, torch.zeros(1))
        self.kept = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = getattr(self, self.kept)
        count.add_(1)
        return x + count


@pytest.fixture(scope="module", params=["torch.eager", "onnxruntime.cpu", "openvino", "executorch.portable"])
def session(request: pytest.FixtureRequest) -> Iterator[Remembering]:
    with xb.load(xb.lower(xb.capture(Tally(), (X,)), request.param)) as opened:
        assert isinstance(opened, Remembering)
        yield opened


def count(session: Any) -> float:
    return float(session(X)[0])


def test_an_interrupted_call_leaves_the_state_undefined_until_a_reset(
    session: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.reset()
    bound = session.bind([X])
    bind = session._keeper.bind

    def interrupted(inputs: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        call = bind(inputs)

        def run() -> Sequence[Any]:
            call()
            raise KeyboardInterrupt  # Ctrl-C is raised when the runtime comes back

        return run

    assert count(session) == 1
    with monkeypatch.context() as patch:
        patch.setattr(session._keeper, "bind", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session(X)
    for use in (lambda: session(X), lambda: session.bind([X]), bound, session.state.read):
        with pytest.raises(RunError, match=r"undefined\. Call session\.reset\(\)"):
            use()
    session.reset()
    assert count(session) == 1 and float(to_numpy(bound()[0])[0]) == 2


def test_inputs_that_do_not_fit_leave_the_state_as_it_was(session: Remembering) -> None:
    session.reset()
    assert count(session) == 1
    with pytest.raises(RunError, match="must be"):
        session(torch.zeros(3))
    assert count(session) == 2


def test_threads_take_turns_on_one_session(session: Remembering) -> None:
    session.reset()
    found: list[list[float]] = [[] for _ in range(THREADS)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(count(session) for _ in range(CALLS))) for mine in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(value for mine in found for value in mine) == list(range(1, THREADS * CALLS + 1))
    assert all(mine == sorted(mine) for mine in found)  # each thread sees its own calls in order


def test_the_state_of_another_program_is_refused(session: Remembering) -> None:
    session.reset()
    assert count(session) == 1
    with xb.load(xb.lower(xb.capture(Tally("steps"), (X,)), "torch.eager")) as other:
        other(X)
        foreign = other.state.read()
    with pytest.raises(RunError, match="the state of another program: it has steps, not calls"):
        session.state.write(foreign)
    with pytest.raises(RunError, match="state 'calls' must be"):
        session.state.write({"calls": np.zeros(3, np.float32)})
    assert count(session) == 2  # it stayed as it was
