"""Remembering: a session of a program with state, over a session of what its backend lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cross_backend.artifact import Artifact
from cross_backend.backend.keeping import Keeper, SessionState, initial_values
from cross_backend.backend.options import Options
from cross_backend.backend.session import Session
from cross_backend.errors import RunError, UnsupportedError
from cross_backend.structure import Structure
from cross_backend.tensors import Tensors, to_numpy

if TYPE_CHECKING:
    from cross_backend.backend.interface import Backend


def load_session(backend: Backend, artifact: Artifact, options: Options) -> Session:
    """Return a session for an artifact whose digest was checked; one of a program with state keeps it."""
    if not artifact.state:
        return backend.load(artifact, options)
    if backend.takes_state == "tensors":
        return Remembering(artifact, options, lambda: backend.load(pure(artifact), options), PassedState)
    return Remembering(artifact, options, lambda: backend.load(artifact, options), Reopened)


def pure(artifact: Artifact) -> Artifact:
    """Return an artifact as its payload is: with the state among its inputs and outputs."""
    made = tuple(replace(spec, name=f"{spec.name}.next") for spec in artifact.state)
    inputs, outputs = (*artifact.inputs, *artifact.state), (*artifact.outputs, *made)
    structure = Structure.of_flat([spec.name for spec in inputs], len(outputs))
    return replace(artifact, inputs=inputs, outputs=outputs, structure=structure, state=())


def pure_call(backend: Backend, artifact: Artifact, inputs: Tensors) -> tuple[Artifact, Tensors]:
    """Return an artifact and inputs with which its backend runs one call from the initial state, for profiles."""
    if not artifact.state or backend.takes_state != "tensors":
        return artifact, inputs
    return pure(artifact), [*inputs, *initial_values(artifact)]


class Remembering(Session):
    """A session with state: calls in order, each on the state that the one before left.

    A call that was interrupted or failed leaves the state undefined: until ``reset()`` or a write, no further call is
    taken.
    """

    def __init__(
        self, artifact: Artifact, options: Options, load: Callable[[], Session], fallback: Callable[..., Keeper]
    ) -> None:
        """Describe it; nothing is opened.

        Args:
            artifact: with state.
            options: every declared option.
            load: returns a session of the payload.
            fallback: makes a keeper of that session and the initial values, where the session has none of its own.
        """
        super().__init__(artifact, options)
        self._load, self._fallback = load, fallback
        self._is_undefined = False

    def _open(self) -> None:
        initial = initial_values(self.artifact)
        self._inner = self._load()
        self._inner.remembers = len(self._inner.inputs) - len(self.inputs)
        self._inner.__enter__()
        try:
            self._keeper = self._inner.keeper(initial) or self._fallback(self._inner, initial)
        except BaseException:
            self._inner.__exit__(None, None, None)
            raise
        self._is_undefined = False

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        self._check_defined()
        call = self._keeper.bind(inputs)

        def run() -> Tensors:
            if self._is_undefined:
                self._check_defined()
            try:
                return call()
            except BaseException:  # Ctrl-C, too
                self._is_undefined = True
                raise

        return run

    def _close(self) -> None:
        del self._keeper
        inner = self._inner
        del self._inner
        inner.__exit__(None, None, None)

    def reset(self) -> None:
        with self._turn:
            self._opened().reset()
            self._is_undefined = False

    @property
    def state(self) -> SessionState:
        return SessionState(self.artifact.state, self, self._keeper.moved_bytes if self.is_open else 0)

    def read_state(self) -> Any:
        """Return a copy of the state; see :class:`SessionState`."""
        with self._turn:
            self._check_defined()
            return self._opened().read()

    def write_state(self, values: Any) -> None:
        """Replace the state; see :class:`SessionState`."""
        with self._turn:
            self._opened().write(values)
            self._is_undefined = False

    def fork(self) -> Remembering:
        """Return another open session that continues from the same state."""
        values = self.read_state()
        other = Remembering(self.artifact, self.options, self._load, self._fallback)
        other.__enter__()
        try:
            other.write_state(values)
        except BaseException:
            other.__exit__(None, None, None)
            raise
        return other

    def _check_defined(self) -> None:
        if self._is_undefined:
            raise RunError("a call was interrupted or failed, so the state is undefined. Call session.reset() first.")

    def _opened(self) -> Keeper:
        if not self.is_open:
            raise RunError("the session is closed; use it inside 'with xb.load(...) as session:'.")
        return self._keeper

    _inner: Session
    _keeper: Keeper


class PassedState(Keeper):
    """State that goes in and out of every call as tensors, for runtimes that keep none: each call binds it."""

    def __init__(self, session: Session, initial: Sequence[Any]) -> None:
        self._session, self._initial = session, initial
        self._values: Sequence[Any] = initial
        self.moved_bytes = 2 * sum(value.nbytes for value in initial)

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        session, count = self._session, len(self._initial)

        def run() -> Tensors:
            outputs = session.bind([*inputs, *self._values])()
            self._values = [to_numpy(value).copy() for value in outputs[-count:]]
            return outputs[:-count]

        session.bind([*inputs, *self._values])  # says now what does not fit
        return run

    def reset(self) -> None:
        self._values = self._initial

    def read(self) -> Sequence[Any]:
        return [value.copy() for value in self._values]

    def write(self, values: Sequence[Any]) -> None:
        self._values = [value.copy() for value in values]


class Reopened(Keeper):
    """State inside a runtime that does not expose it: opening the program again is its reset."""

    def __init__(self, session: Session, initial: Sequence[Any]) -> None:
        self._session, self._turns = session, 0

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        bound, turns = self._session.bind(inputs), self._turns

        def run() -> Tensors:
            nonlocal bound, turns
            if turns != self._turns:  # opened again since
                bound, turns = self._session.bind(inputs), self._turns
            return bound()

        return run

    def reset(self) -> None:
        self._turns += 1
        self._session.__exit__(None, None, None)
        self._session.__enter__()

    def read(self) -> Sequence[Any]:
        raise UnsupportedError(f"{self._session.target} keeps its state inside, and its runtime does not expose it.")

    def write(self, values: Sequence[Any]) -> None:
        self.read()
