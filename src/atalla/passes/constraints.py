"""Constraints: what a rule needs of a node; the docstring of each is the reason that its user reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from atalla import ir
from atalla.dims import Dim, equal
from atalla.errors import UnsupportedError
from atalla.isa import Dtype

if TYPE_CHECKING:
    from atalla.passes.lowering import Lowering

COMPUTED = frozenset(Dtype) - {Dtype.F64}
"""Element types that EW reads and writes."""


@dataclass(frozen=True)
class Request:
    """A node that a rule is asked to lower."""

    low: Lowering
    arguments: Mapping[str, Any]
    """By the names of the rule's parameters."""

    def __getitem__(self, name: str) -> Any:
        """Return an argument."""
        return self.arguments[name]

    @property
    def tensors(self) -> list[ir.Tensor]:
        """Return all tensors among the arguments."""
        return [one for one in self._leaves() if isinstance(one, ir.Tensor)]

    @property
    def dtype(self) -> Dtype:
        """Return the element type of the first output."""
        return self.low.output_type()[0]

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Return the shape of the first output."""
        return self.low.output_type()[1]

    @property
    def symbols(self) -> list[Any]:
        """Return the numbers among the arguments that are expressions of symbols."""
        return [one for one in self._leaves() if hasattr(one, "free_symbols")]

    def _leaves(self) -> Iterator[Any]:
        queue = [value for name, value in self.arguments.items() if name != "low"]
        while queue:
            value = queue.pop(0)
            if isinstance(value, Mapping):
                queue = [*value.values(), *queue]
            elif isinstance(value, tuple | list):
                queue = [*value, *queue]
            else:
                yield value


Constraint: TypeAlias = Callable[[Request], bool]


def reason(constraint: Constraint) -> str:
    """Return a constraint in words."""
    return (constraint.__doc__ or "").strip().splitlines()[0].rstrip(".")


def refuse(constraint: Constraint) -> NoReturn:
    """Refuse a graph because a constraint does not hold.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(reason(constraint))


def computed(asked: Request) -> bool:
    """Tensors must not be float64, which EW would compute with half of the digits."""
    return asked.dtype in COMPUTED and all(one.dtype in COMPUTED for one in asked.tensors)


def float32(asked: Request) -> bool:
    """Tensors must be float32."""
    return all(one.dtype is Dtype.F32 for one in asked.tensors) and asked.dtype is Dtype.F32


def known_numbers(asked: Request) -> bool:
    """Numbers must be known when the program is compiled."""
    return not asked.symbols


def has_elements(asked: Request) -> bool:
    """No dim may be of size 0."""
    return not any(equal(extent, 0) for one in asked.tensors for extent in one.shape)


def has_dims(asked: Request) -> bool:
    """The tensor must have at least one dim."""
    return all(one.shape for one in asked.tensors)
