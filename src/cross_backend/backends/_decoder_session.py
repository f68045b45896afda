"""Sessions of runtimes that keep a decoder's keys and values inside, and take tokens one after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.backend import Keeper, Session
from cross_backend.backends._integers import to_int32
from cross_backend.errors import LoadError, RunError, UnsupportedError, failing_as
from cross_backend.tensors import Tensors, to_numpy

if TYPE_CHECKING:
    from cross_backend.backends._decoder import Array


class DecoderSession(Session):
    """A runtime that has taken some tokens of a text and appends further ones.

    A call names the position of its first token. One that was taken before is taken again: the runtime forgets the
    tokens from there on. A position that leaves tokens out is refused.
    """

    def _open(self) -> None:
        self.context, self.vocabulary = self._sizes()
        with failing_as(LoadError, f"{self.target} cannot load {self.artifact.payload_path.name}"):
            self._open_runtime()
        self._taken: int | None = 0
        """Tokens that the runtime keeps; None after a failure."""

    def _sizes(self) -> tuple[int, int]:
        """Return positions of the caches and size of the vocabulary, of a decoder's manifest.

        Raises:
            LoadError: it describes something else.
        """
        kinds = [(spec.dtype, len(spec.shape)) for spec in (*self.inputs, *self.outputs)]
        state = [spec.shape for spec in self.artifact.state]
        if kinds == [("int64", 2), ("int64", 1), ("float32", 2)] and state and all(len(one) == 3 for one in state):
            sizes = state[0][1], self.outputs[0].shape[1]
            if all(isinstance(size, int) for size in sizes):
                return int(sizes[0]), int(sizes[1])
        raise LoadError(f"{self.target} cannot load {self.artifact.name}: its manifest describes no decoder.")

    @abstractmethod
    def _open_runtime(self) -> None:
        """Open the payload with empty caches, and check that it has the sizes of the manifest."""

    @abstractmethod
    def _append(self, tokens: Array) -> Array:
        """Take int32 tokens ``(n,)`` after those that are kept; return the logits of the next one, of any shape."""

    @abstractmethod
    def _forget(self, kept: int) -> None:
        """Keep so many tokens, and forget those after them."""

    @abstractmethod
    def _start(self) -> None:
        """Begin with empty caches, after a failure."""

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        tokens, start = (to_int32(spec.name, to_numpy(x)) for spec, x in zip(self.inputs, inputs, strict=True))
        tokens, place = tokens.reshape(-1), int(start[0])
        if not tokens.size or place < 0 or place + tokens.size > self.context:
            raise RunError(
                f"{tokens.size} tokens at position {place} do not fit: the model has positions 0 to {self.context - 1}."
            )
        if tokens.min() < 0 or tokens.max() >= self.vocabulary:
            raise RunError(f"a token is not among the {self.vocabulary} of the model's vocabulary.")
        after, shape = place + tokens.size, (1, self.vocabulary)

        def run() -> Tensors:
            if self._taken != place:
                self._return_to(place)
            self._taken = None
            logits = self._append(tokens)
            self._taken = after
            return [logits.reshape(shape)]

        return run

    def _return_to(self, place: int) -> None:
        if self._taken is None or place > self._taken:
            raise RunError(
                f"position {place} leaves tokens out: {self._taken or 0} were taken. Call the positions in order, or "
                "session.reset() first."
            )
        self._forget(place)
        self._taken = place

    def begin_again(self) -> None:
        """Forget all tokens."""
        if self._taken is None:
            self._start()
        elif self._taken:
            self._forget(0)
        self._taken = 0

    def keeper(self, initial: Sequence[Any]) -> Keeper:
        """Leave the state to the runtime."""
        return _Inside(self)


class _Inside(Keeper):
    """Keys and values in a runtime that does not hand them out."""

    def __init__(self, session: DecoderSession) -> None:
        self._session = session

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        return self._session.bind(inputs)

    def reset(self) -> None:
        self._session.begin_again()

    def read(self) -> Sequence[Any]:
        raise UnsupportedError(f"{self._session.target} keeps its state inside, and its runtime does not expose it.")

    def write(self, values: Sequence[Any]) -> None:
        self.read()
