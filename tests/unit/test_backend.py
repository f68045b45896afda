"""The interface: options, reasons, and what a session checks before a backend sees anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cross_backend import backend as interface
from cross_backend.artifact import Artifact
from cross_backend.backend import Backend, Calibration, Lowered, Missing, Option, Options, Session, Unavailable
from cross_backend.errors import RunError, UsageError
from cross_backend.machine import Machine
from cross_backend.tensors import Tensors


class _Doubler(Session):
    """Gives twice its input; writes down what happens to it."""

    def _open(self) -> None:
        self.seen = [*getattr(self, "seen", []), "open"]

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        self.seen.append("bind")
        copies = [np.array(x) for x in inputs]
        return lambda: [x * 2 for x in copies]

    def _close(self) -> None:
        self.seen.append("close")


class _Shared(Session):
    """Gives its input through the one memory that it has."""

    def _open(self) -> None:
        self.memory: Any = np.zeros_like(X)
        self.begun = threading.Event()

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        def run() -> Tensors:
            self.memory[:] = inputs[0]
            self.begun.set()
            time.sleep(0.005)
            return [self.memory]

        return run

    def _close(self) -> None:
        self.memory[:] = np.nan


class _Broken(_Doubler):
    def _open(self) -> None:
        raise RunError("no device")


class _Backend(Backend):
    name, title, suffix, distributions = "doubler", "Doubler", ".x", ()
    options: ClassVar[Mapping[str, Option]] = {
        "mode": Option("how", "slow", ("slow", "fast")),
        "threads": Option("how many", None, at="load"),
    }

    def missing(self, machine: Machine) -> Missing | None:
        return None

    def lower(self, program: Any, options: Options, stem: Path, calibration: Calibration) -> Lowered:
        raise NotImplementedError

    def load(self, artifact: Artifact, options: Options) -> Session:
        return _Doubler(artifact, options)


@pytest.fixture
def session(make_artifact: Callable[..., Artifact]) -> _Doubler:
    return _Doubler(make_artifact(), {})


X = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)


def test_three_methods_are_needed_and_stand_first() -> None:
    """Whoever reads the class from above sees what is needed, and then what may be added."""
    names = [name for name, value in vars(Backend).items() if callable(value) and not name.startswith("_")]
    assert set(names[:3]) == Backend.__abstractmethods__ == {"missing", "lower", "load"}
    given = {name for name in Backend.__annotations__ if hasattr(Backend, name)}
    assert list(Backend.__annotations__)[:4] == ["name", "title", "suffix", "distributions"]
    assert given == set(list(Backend.__annotations__)[4:]), "what may be added has an answer already"


def test_what_is_missing_may_be_nothing() -> None:
    assert not Missing() and Missing(lower=Unavailable("x", "")) and Missing(run=Unavailable("x", ""))


def test_options_get_defaults_and_types() -> None:
    assert _Backend().parse_options({}) == {"mode": "slow", "threads": None}
    assert _Backend().parse_options({"threads": "4", "mode": "fast"}) == {"mode": "fast", "threads": 4}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mod": "fast"}, r"option of doubler: 'mod'\. Did you mean 'mode'\? Choices: mode, threads"),
        ({"mode": "fats"}, r"'mode': 'fats'\. Did you mean 'fast'\? Choices: fast, slow"),
        *(({"threads": text}, "whole number from 1 to 4096") for text in ("0", "-1", "1.5", "x", "4097", "", "²")),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _Backend().parse_options(given)


def test_the_name_of_1_0_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="is called Unavailable"):
        assert interface.Gap is Unavailable


def test_a_reason_is_read_with_its_remedy() -> None:
    assert str(Unavailable("needs x", "pip install x")) == "needs x; pip install x"
    assert str(Unavailable("needs a Mac", "")) == "needs a Mac"


def test_a_session_is_opened_and_closed_once_each(session: _Doubler) -> None:
    with session as first, first as again:  # load_best gives an open session that the caller puts into 'with'
        assert again is session
    assert session.seen == ["open", "close"]
    with session:
        pass
    assert session.seen == ["open", "close"] * 2


def test_a_session_is_closed_when_its_block_fails(session: _Doubler) -> None:
    with pytest.raises(ZeroDivisionError), session:
        _ = 1 / 0
    assert session.seen == ["open", "close"]
    assert not session.is_open


def test_a_session_that_cannot_open_stays_closed(make_artifact: Callable[..., Artifact]) -> None:
    broken = _Broken(make_artifact(), {})
    with pytest.raises(RunError, match="no device"), broken:
        pytest.fail("not reached")
    with pytest.raises(RunError, match="closed"):
        broken.bind([X])


def test_the_backend_sees_only_inputs_that_fit(session: _Doubler) -> None:
    with pytest.raises(RunError, match="closed"):
        session.bind([X])
    with session:
        for wrong in ([], [X, X], [X[0]], [X.astype(np.float64)], [[1.0, 2.0, 3.0, 4.0]]):
            with pytest.raises(RunError):
                session.bind(wrong)
        assert session.seen == ["open"]
        np.testing.assert_array_equal(session.bind([X])()[0], X * 2)


def test_one_output_is_given_as_itself(session: _Doubler) -> None:
    with session:
        np.testing.assert_array_equal(session(X), X * 2)


def test_several_outputs_are_given_as_a_tuple(make_artifact: Callable[..., Artifact]) -> None:
    artifact = make_artifact()
    two = Artifact(**{**vars(artifact), "inputs": artifact.inputs * 2, "outputs": artifact.outputs * 2})
    with _Doubler(two, {}) as session:
        given = session(X, X + 1)
    assert isinstance(given, tuple) and len(given) == 2


def test_threads_take_turns(make_artifact: Callable[..., Artifact]) -> None:
    """A runtime that keeps its outputs in one place must not give one caller what another asked for."""
    with _Shared(make_artifact(), {}) as session, ThreadPoolExecutor(2) as pool:
        for number, given in pool.map(lambda number: (number, session(X * 0 + number)), [1, 2] * 10):
            np.testing.assert_array_equal(given, X * 0 + number)


def test_a_session_is_not_closed_while_it_runs(make_artifact: Callable[..., Artifact]) -> None:
    session = _Shared(make_artifact(), {}).__enter__()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(session, X)
        assert session.begun.wait(10)
        session.__exit__(None, None, None)
        np.testing.assert_array_equal(running.result(), X)
    with pytest.raises(RunError, match="closed"):
        session(X)


def test_what_gives_another_number_of_outputs_is_an_error(session: _Doubler) -> None:
    session.outputs *= 2
    with session, pytest.raises(RunError, match="gave 1 output"):
        session(X)


def test_a_session_tells_its_target_and_specifications(session: _Doubler) -> None:
    assert session.target == "null"
    assert [str(s) for s in (*session.inputs, *session.outputs)] == ["float32[1, 4]", "float32[1, 1]"]
    assert session.rejected == ()
