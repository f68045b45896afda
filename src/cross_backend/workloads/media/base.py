"""Media: the interface of a kind, what it prepares, and how that is made to fit an artifact's inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from cross_backend.errors import UsageError
from cross_backend.serialization import to_json
from cross_backend.tensors import MAX_DRAWN, TensorSpec, dtype_of
from cross_backend.workloads.media.shown import Shown

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 32 << 20
"""Longest file that is taken."""
UNTRAINED = "The model's weights are random: its answer means nothing."


class Prepared(tuple[Any, ...]):  # noqa: SLOT001  a tuple can have no slots but empty ones
    """NumPy arrays, as the model takes them, batch of one; beside them what is known of the source."""

    seen: Shown
    """What is shown of the source; a run's outputs are added to it."""

    def __new__(cls, inputs: Sequence[np.ndarray[Any, Any]], seen: Shown) -> Self:
        """Return a tuple of the inputs."""
        made = super().__new__(cls, inputs)
        made.seen = seen
        return made


@dataclass(frozen=True, kw_only=True)
class Media(ABC):
    """What a workload's inputs are made of, and what its outputs mean."""

    kind: ClassVar[str]
    """Name of the kind."""
    what: ClassVar[str]
    """What goes in, for people: ``a picture``."""
    accepts: ClassVar[tuple[str, ...]]
    """Media types of files that go in, for a file chooser; what counts is the content."""
    trained: bool = True
    """Whether the weights were trained; the answers of random ones mean nothing."""

    @abstractmethod
    def prepare(self, data: bytes, name: str | None = None) -> Prepared:
        """Return what the model takes, made of a file's bytes; ``name`` is for messages.

        Raises:
            UsageError: the bytes are something else, damaged, too long, or would unpack to too much.
        """

    @abstractmethod
    def present(self, outputs: Sequence[np.ndarray[Any, Any]], prepared: Prepared) -> Shown:
        """Return what is shown of the first row of a run's outputs.

        Raises:
            RunError: they are not finite, or not such a model's.
        """

    def draw(self, shown: Shown, source: bytes) -> bytes:  # noqa: ARG002
        """Return the source with the answer drawn on it, as a PNG file.

        Raises:
            UsageError: nothing is drawn of this kind, or the source cannot be read.
        """
        raise UsageError(f"nothing is drawn on {self.what}; only boxes are.")

    def to_json(self) -> dict[str, Any]:
        """Return what a manifest keeps."""
        row: dict[str, Any] = to_json(self)
        return {"kind": self.kind, **row}

    def caveats(self) -> tuple[str, ...]:
        """Return what has to be known about every answer."""
        return () if self.trained else (UNTRAINED,)


def check_length(data: bytes, name: str | None) -> None:
    """Refuse what is empty or too long.

    Raises:
        UsageError: as it says.
    """
    if not data:
        raise UsageError(f"{called(name)} is empty.")
    if len(data) > MAX_BYTES:
        raise UsageError(f"{called(name)} is longer than {MAX_BYTES >> 20} MiB.")


def called(name: str | None) -> str:
    """Return what a message calls a file."""
    return name or "the input"


def fitted(prepared: Prepared, specs: Sequence[TensorSpec]) -> tuple[np.ndarray[Any, Any], ...]:
    """Return prepared inputs in an artifact's own element types, the one row repeated where it takes a batch.

    Where nothing has to be changed they are the prepared arrays themselves.

    Raises:
        UsageError: the artifact takes something else.
    """
    import numpy as np

    found = []
    if len(specs) != len(prepared):
        raise _other(prepared, specs)
    for spec, tensor in zip(specs, prepared, strict=True):
        batch = spec.shape[0] if spec.shape and isinstance(spec.shape[0], int) else 1
        has_room = 0 < batch * tensor.size <= MAX_DRAWN
        row = tensor.astype(dtype_of(spec.dtype), copy=False)
        if not has_room or not replace(spec, dtype=str(row.dtype), shape=(1, *spec.shape[1:])).accepts(row):
            raise _other(prepared, specs)
        found.append(row if batch == 1 else np.repeat(row, batch, 0))
    return tuple(found)


def _other(prepared: Prepared, specs: Sequence[TensorSpec]) -> UsageError:
    wanted = ", ".join(map(str, specs))
    given = ", ".join(str(TensorSpec.of("", tensor)) for tensor in prepared)
    return UsageError(f"the artifact takes {wanted}, and its media give {given}.")
