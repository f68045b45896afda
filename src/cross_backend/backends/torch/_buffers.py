"""State on torch: buffers of the program's module, changed where they lie; or tensors that are handed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cross_backend.backend import Keeper, Session
from cross_backend.backends._to_torch import to_torch
from cross_backend.tensors import Tensors, from_numpy, to_numpy


class Buffers(Keeper):
    """Keeps the state in place; the initial values are those of the artifact."""

    def __init__(
        self, session: Session, buffers: Mapping[str, Any], names: Sequence[str], initial: Sequence[Any]
    ) -> None:
        """Bring the buffers to their initial values.

        Args:
            session: open, of which the module is.
            buffers: of the module, by name.
            names: those that a call changes, in the order of the values.
            initial: NumPy arrays.
        """
        self._session, self._initial = session, initial
        self._buffers = [buffers[name] for name in names]
        self.reset()

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        return self._session.bind(inputs)

    def reset(self) -> None:
        self.write(self._initial)

    def read(self) -> Sequence[Any]:
        return [to_numpy(buffer).copy() for buffer in self._buffers]

    def write(self, values: Sequence[Any]) -> None:
        import torch

        with torch.inference_mode():
            for buffer, value in zip(self._buffers, values, strict=True):
                buffer.copy_(from_numpy(value))


class Chained(Keeper):
    """Hands a compiled function's last outputs to its next call as its last inputs; nothing is copied on the way."""

    def __init__(
        self, function: Callable[..., Any], device: str, wait: Callable[[], None], initial: Sequence[Any]
    ) -> None:
        """Begin with the initial values.

        Args:
            function: takes and returns flat tensors, the state last.
            device: where it computes.
            wait: returns when the device is done.
            initial: NumPy arrays.
        """
        self._function, self._device, self._wait, self._initial = function, device, wait, initial
        self.moved_bytes = 2 * sum(value.nbytes for value in initial)  # it writes the whole next state
        self.reset()

    def bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        import torch
        from torch.utils import _pytree

        given = [to_torch(x).to(self._device) for x in inputs]
        function, wait, count = self._function, self._wait, len(self._initial)

        def run() -> Tensors:
            with torch.inference_mode():
                outputs = _pytree.tree_leaves(function(*given, *self._values))
            wait()
            self._values = outputs[-count:]
            return outputs[:-count]

        return run

    def reset(self) -> None:
        self.write(self._initial)

    def read(self) -> Sequence[Any]:
        return [to_numpy(value).copy() for value in self._values]

    def write(self, values: Sequence[Any]) -> None:
        self._values = [from_numpy(value).to(self._device) for value in values]

    _values: list[Any]
