"""Keeping state: who keeps what a program remembers from call to call, and what a caller may do with it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cross_backend.errors import RunError
from cross_backend.program.state import STATE
from cross_backend.tensors import Tensors, TensorSpec, dtype_of, load_tensors, to_numpy

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.artifact import Artifact

    Arrays = Sequence[np.ndarray[Any, Any]]


class Keeper(ABC):
    """Keeps the state of one open program from call to call."""

    moved_bytes: int = 0
    """Bytes of state that each call copies in and out; 0 where the state stays where it is."""

    @abstractmethod
    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        """Return a call on these inputs that continues from the state that the call before left."""

    @abstractmethod
    def reset(self) -> None:
        """Return to the initial state."""

    @abstractmethod
    def read(self) -> Arrays:
        """Return a copy of the state.

        Raises:
            UnsupportedError: the runtime does not expose it.
        """

    @abstractmethod
    def write(self, values: Arrays) -> None:
        """Replace the state by values that were checked.

        Raises:
            UnsupportedError: the runtime does not expose it.
        """


class Remembers(Protocol):
    """An open session with state, as :class:`SessionState` sees it."""

    def read_state(self) -> Arrays:
        """Return a copy of the state."""

    def write_state(self, values: Arrays) -> None:
        """Replace the state."""

    def fork(self) -> Any:
        """Return another open session that continues from the same state."""


class SessionState:
    """The state of a session: read it, write it, or fork the session."""

    def __init__(self, specs: Sequence[TensorSpec], session: Remembers | None, moved_bytes: int = 0) -> None:
        self.specs = tuple(specs)
        """Name, element type and shape of each part; empty for a program without state."""
        self.moved_bytes = moved_bytes
        """Bytes of state that each call copies in and out; 0 where the runtime keeps it in place."""
        self._session = session

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole state."""
        return sum(math.prod(map(int, spec.shape)) * dtype_of(spec.dtype).itemsize for spec in self.specs)

    def read(self) -> dict[str, Any]:
        """Return a copy of each part, NumPy arrays by name.

        Raises:
            UnsupportedError: the runtime does not expose it.
        """
        if self._session is None:
            return {}
        return {spec.name: value for spec, value in zip(self.specs, self._session.read_state(), strict=True)}

    def write(self, values: Mapping[str, Any]) -> None:
        """Replace the state by what :meth:`read` returned, of this session or of another one of the same program.

        Raises:
            RunError: a part is missing, unknown, or has another type or shape; nothing is changed then.
            UnsupportedError: the runtime does not expose it.
        """
        wanted = {spec.name: spec for spec in self.specs}
        if set(values) != set(wanted):
            parts = ", ".join(wanted) or "no state"
            raise RunError(
                f"this is the state of another program: it has {', '.join(values) or 'nothing'}, not {parts}."
            )
        arrays = [to_numpy(values[name]) for name in wanted]
        for spec, array in zip(self.specs, arrays, strict=True):
            if not spec.accepts(array):
                raise RunError(f"state {spec.name!r} must be {spec}, but {TensorSpec.of(spec.name, array)} was given.")
        if self._session is not None:
            self._session.write_state(arrays)

    def fork(self) -> Any:
        """Return another open session that continues from the same state; close it with ``with`` or ``__exit__``.

        Raises:
            RunError: the program has no state.
            UnsupportedError: the runtime does not expose it.
        """
        if self._session is None:
            raise RunError("the program has no state to fork; open a second session.")
        return self._session.fork()


def initial_values(artifact: Artifact) -> Arrays:
    """Return the initial state of an artifact.

    Raises:
        RunError: its sample file is absent, or does not hold it.
    """
    import numpy as np

    found = load_tensors(artifact.sample_path).get(STATE, ()) if artifact.sample_path else ()
    if len(found) != len(artifact.state):
        raise RunError(f"{artifact.name} has no initial state beside it. Export it again.")
    values = []
    for spec, value in zip(artifact.state, found, strict=True):
        is_zeros = not value.size
        full = np.zeros([int(n) for n in spec.shape], dtype_of(spec.dtype)) if is_zeros else value
        if not spec.accepts(full):
            raise RunError(f"{artifact.name} has another initial state beside it: {spec.name!r} is no {spec}.")
        values.append(full)
    return values
