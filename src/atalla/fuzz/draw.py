"""Draw: what a seed chooses; operands out of what a program has so far, or new tensors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from atalla.fuzz.graph import Leaf, Node
from atalla.fuzz.values import UNFILLED, RefusedError, Values

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
FLOAT = ("float32",)
WHOLE = ("int64", "int32")
BYTES = ("uint8",)
ANY = (*FLOAT, *WHOLE, *BYTES, "bool")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 33)
LARGE = (32, 40, 64, 65, 100, 129)
MOST_NEW = 40_000
"""Elements of a new tensor at most."""
KINDS = {
    "float32": ("float", "float", "float", "halves", "positive"),
    "int64": ("int64",),
    "int32": ("int32",),
    "uint8": ("uint8",),
    "bool": ("bool",),
    "int8": ("int8",),
}
"""Element type → kinds of numbers."""


class Draw:
    """A program that grows."""

    def __init__(self, seed: int, precision: str) -> None:
        self.random = random.Random(seed)  # noqa: S311  no secret
        self.precision = precision
        self.values = Values(precision)
        self.leaves: list[Leaf] = []
        self.nodes: list[Node] = []
        self.is_large = self.random.random() < 0.12
        rank = self.one(1, 2, 2, 3, 3, 4, 4, 4, 5)
        self.theme = self.new_shape(rank)
        """The shape that many new tensors have, so that they go together."""

    def one(self, *options: T) -> T:
        """Return one of them.

        Raises:
            RefusedError: there is none.
        """
        if not options:
            raise RefusedError("nothing to choose from")
        return self.random.choice(options)

    def maybe(self, share: float = 0.5) -> bool:
        """Return whether, with this probability."""
        return self.random.random() < share

    def number(self, low: float = -2.0, high: float = 2.0) -> float:
        """Return a number with few digits."""
        return round(self.random.uniform(low, high), 2)

    def whole(self, low: int, high: int) -> int:
        """Return a whole number; both ends are in.

        Raises:
            RefusedError: there is none.
        """
        if low > high:
            raise RefusedError("nothing to choose from")
        return self.random.randint(low, high)

    def size(self) -> int:
        """Return the size of a dim."""
        return self.one(*LARGE) if self.is_large and self.maybe(0.6) else self.one(*SIZES)

    def new_shape(self, rank: int) -> tuple[int, ...]:
        """Return a shape of few enough elements; batches are small. Now and then it has none."""
        shape = [self.size() for _ in range(rank)]
        if rank > 2:
            shape[0] = self.one(1, 1, 2, 3)
        while math.prod(shape) > MOST_NEW // (1 if self.is_large else 10):
            widest = shape.index(max(shape))
            shape[widest] = max(1, shape[widest] // 2)
        if rank and self.maybe(0.02):
            shape[self.whole(0, rank - 1)] = 0
        return tuple(shape)

    def tensor(self, name: str) -> torch.Tensor:
        """Return the value in float32."""
        return self.values.known[name].single  # type: ignore[no-any-return]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(self.tensor(name).shape)

    def dtype(self, name: str) -> str:
        """Return the element type of a value."""
        return str(self.tensor(name).dtype).removeprefix("torch.")

    def rank(self, name: str) -> int:
        """Return the number of dims of a value."""
        return self.tensor(name).dim()

    def dim(self, name: str) -> int:
        """Return one of a value's dims, counted from either end."""
        rank = self.rank(name)
        return self.whole(-rank, rank - 1) if rank else self.one(0, -1)

    def names(self) -> list[str]:
        """Return the tensors, the newest last; not those that nobody has filled."""
        import torch

        empty = {node.name for node in self.nodes if node.operator in UNFILLED}
        known = self.values.known.items()
        return [name for name, one in known if isinstance(one.single, torch.Tensor) and name not in empty]

    def leaf(
        self,
        shape: Sequence[int],
        kind: str = "float",
        *,
        role: str | None = None,
        layout: str | None = None,
        bound: int = 0,
    ) -> str:
        """Add a leaf, and return its name.

        Raises:
            RefusedError: there are no such numbers.
        """
        shape = tuple(shape)
        is_float = kind in {"float", "positive", "halves", "small", "grid"}
        role = role or self.one("x", "x", "x", "p" if is_float else "c", "c")
        if not any(leaf.name.startswith("x") for leaf in self.leaves):
            role = "x"
        layout = layout or (self._layout(shape) if role == "x" else "plain")
        number = sum(leaf.name.startswith(role) for leaf in self.leaves)
        leaf = Leaf(f"{role}{number}", kind, shape, layout, self.whole(0, 10**6), bound)
        self.leaves.append(leaf)
        self.values.add_leaf(leaf)
        return leaf.name

    def _layout(self, shape: tuple[int, ...]) -> str:
        if not shape or self.maybe(0.6):
            return "plain"
        options = ["gaps", "offset", "expanded"]
        if len(shape) > 1:
            options.append("transposed")
        if len(shape) == 4:
            options += ["channels_last"] * 3
        return self.one(*options)

    def weight(self, *shape: int, kind: str = "small") -> str:
        """Add a parameter or a constant, and return its name."""
        return self.leaf(shape, kind, role=self.one("p", "p", "c"))

    def some(
        self,
        dtypes: Sequence[str] = FLOAT,
        rank: int | Sequence[int] | None = None,
        where: Callable[[tuple[int, ...]], bool] = lambda _: True,
    ) -> str:
        """Return a value of one of these types and ranks, whose shape is so; the newest first, or a new one.

        ``where`` must hold of some shape without a dim of 1.
        """
        ranks = (rank,) if isinstance(rank, int) else rank
        if self.maybe(0.85):
            for name in reversed(self.names()):
                shape = self.shape(name)
                fits = self.dtype(name) in dtypes and (ranks is None or len(shape) in ranks) and where(shape)
                if fits and self.maybe(0.7):
                    return name
        if (ranks is None or len(self.theme) in ranks) and where(self.theme) and self.maybe(0.8):
            shape = self.theme
        else:
            for _ in range(50):
                shape = self.new_shape(self.one(*ranks) if ranks else self.whole(0, 5))
                if where(shape):
                    break
        return self.new(shape, dtypes)

    def new(self, shape: Sequence[int], dtypes: Sequence[str] = FLOAT) -> str:
        """Add a leaf of one of these types, and return its name."""
        return self.leaf(shape, self.one(*KINDS[self.one(*dtypes)]))

    def like(self, name: str, dtypes: Sequence[str] = FLOAT) -> str:
        """Return a value of the same shape."""
        wanted = self.shape(name)
        found = [one for one in self.names() if self.shape(one) == wanted and self.dtype(one) in dtypes]
        return self.one(*found) if found and self.maybe(0.7) else self.new(wanted, dtypes)

    def beside(self, name: str, dtypes: Sequence[str] = FLOAT) -> str:
        """Return a value that broadcasts with another."""
        if self.maybe(0.5):
            return self.like(name, dtypes)
        shape = [1 if self.maybe(0.4) else size for size in self.shape(name)]
        return self.new(shape[self.one(0, 0, self.whole(0, len(shape))) :], dtypes)

    def emit(self, operator: str, *arguments: Any, **options: Any) -> str:
        """Add a call, and return its name; operands are names, text is written as it is.

        Raises:
            RefusedError: nobody can be held to its result.
        """
        given = [_text(one) for one in arguments] + [f"{key}={_text(one)}" for key, one in options.items()]
        return self._enter(f"{operator}({', '.join(given)})")

    def part(self, name: str, number: int) -> str:
        """Add a part of what a call returns, and return its name."""
        return self._enter(f"{name}[{number}]")

    def _enter(self, call: str) -> str:
        node = Node(f"v{len(self.nodes)}", call)
        self.values.add_node(node)
        self.nodes.append(node)
        return node.name

    def mark(self) -> tuple[int, int]:
        """Return where the program is, for :meth:`back_to`."""
        return len(self.leaves), len(self.nodes)

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what came after a mark."""
        names = [leaf.name for leaf in self.leaves[mark[0] :]] + [node.name for node in self.nodes[mark[1] :]]
        for name in names:
            self.values.known.pop(name, None)
        del self.leaves[mark[0] :], self.nodes[mark[1] :]


def _text(value: Any) -> str:
    """Return an argument as Python; text stands for itself."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return value if isinstance(value, str) else repr(value)
