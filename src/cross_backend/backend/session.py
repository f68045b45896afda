"""Session: an artifact that is open on a device, and what it can do."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cross_backend.artifact import Artifact
from cross_backend.backend.keeping import Keeper, SessionState
from cross_backend.backend.options import Options
from cross_backend.errors import CrossBackendError, RunError, one_line
from cross_backend.structure import Structure
from cross_backend.tensors import Tensors, TensorSpec, check_inputs, in_kind_of


@dataclass(frozen=True)
class Rejected:
    """A candidate that ``load_best`` passed over."""

    target: str
    reason: str


class CallElsewhere(ABC):
    """A bound call whose program runs outside of this process, where its clock and its memory are no measure of it."""

    @abstractmethod
    def __call__(self) -> Tensors:
        """Run once, and bring the outputs here."""

    @abstractmethod
    def sample(self, calls: int, warm_up: int, seconds: float) -> list[int]:
        """Time calls where the program runs, without the way there; see ``measure.latency.sample``; nanoseconds."""

    @abstractmethod
    def timed(self) -> tuple[Tensors, int]:
        """Run once, bring the outputs here, and say how long the program ran where it runs, in nanoseconds."""


class Session(ABC):
    """An open artifact on a device, held only inside ``with``.

    Threads may call one session at the same time: the calls take turns. A bound call belongs to one thread, which calls
    nothing else of its session meanwhile: it takes no turn, so that it can be timed.

    Example:
        >>> with xb.load(artifact) as session:
        ...     run = session.bind((example,))  # converts and copies here
        ...     outputs = run()  # only the runtime's own call
        >>> outputs[0].shape
        torch.Size([1, 2])
    """

    def __init__(self, artifact: Artifact, options: Options) -> None:
        self.artifact = artifact
        self.options = options
        self.target = artifact.target
        self.inputs: tuple[TensorSpec, ...] = artifact.inputs
        self.outputs: tuple[TensorSpec, ...] = artifact.outputs
        self.structure = artifact.structure or Structure.of_flat([s.name for s in self.inputs], len(self.outputs))
        self._turn = threading.Lock()
        self.rejected: tuple[Rejected, ...] = ()
        self.why = ""
        """Which evidence ordered the candidates; empty where nothing was chosen."""
        self.remembers = 0
        """How many of the last inputs and outputs are state that this session is to keep; set before it is opened."""
        self.is_open = False

    def __enter__(self) -> Self:
        with self._turn:
            if not self.is_open:
                self._open()
                self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:
            if self.is_open:
                self.is_open = False
                self._close()

    def reset(self) -> None:
        """Return to the program's initial state; one without state has nothing to reset.

        Raises:
            RunError: the session is not open.
        """
        if not self.is_open:
            raise RunError("the session is closed; use it inside 'with xb.load(...) as session:'.")

    @property
    def state(self) -> SessionState:
        """What the program remembers from call to call: read it, write it, fork the session."""
        return SessionState((), None)

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        """Check, convert and copy inputs; return a call that runs the program on them.

        The call does no conversion and returns when the outputs are there, as the runtime's own
        tensors, which may be overwritten by the next call. One of a program that runs outside
        of this process is a ``CallElsewhere``.

        Args:
            inputs: flat positional tensors, NumPy or torch.

        Raises:
            RunError: they do not fit, or the session is not open.
        """
        if not self.is_open:
            raise RunError("the session is closed; use it inside 'with xb.load(...) as session:'.")
        check_inputs(self.inputs, inputs)
        try:
            return self._bind(inputs)
        except CrossBackendError:
            raise
        except Exception as error:
            raise RunError(f"{self.target} cannot take these inputs: {one_line(error)}") from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run once: takes what the model takes, or its flat tensors, and returns what it returns; torch in, torch out.

        Of a model's own classes, named tuples come back as such, dataclasses as dicts.

        Raises:
            RunError: it is not what the model takes, or the runtime failed.
        """
        inputs = self.structure.take(args, kwargs)
        with self._turn:  # a runtime has one memory for its outputs, which are copied before the next call
            run = self.bind(inputs)
            try:
                outputs = in_kind_of(inputs, run())
            except CrossBackendError:
                raise
            except Exception as error:
                raise RunError(f"{self.target} failed: {one_line(error)}") from error
        if len(outputs) != len(self.outputs):
            raise RunError(f"{self.target} gave {len(outputs)} output(s) instead of {len(self.outputs)}.")
        return self.structure.give(outputs)

    @abstractmethod
    def _open(self) -> None:
        """Open the artifact on the device; vendor errors become LoadError."""

    @abstractmethod
    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        """Do ``bind`` for inputs that were checked."""

    def keeper(self, initial: Sequence[Any]) -> Keeper | None:
        """Return what keeps the state of the program in this runtime; None where nothing of its own does.

        Args:
            initial: values with which a sequence of calls begins, NumPy arrays; the session was just opened.
        """
        return None

    def _close(self) -> None:  # noqa: B027  most runtimes free on garbage collection
        """Release the device."""
