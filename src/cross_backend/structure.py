"""Structure: how the arguments and outputs of a model are made of flat tensors; plain containers, kept as JSON.

A node is written as ``"tensor"``, ``{"constant": 3}``, ``{"tuple": […]}``, ``{"list": […]}``,
``{"dict": [[key, …], …]}`` or ``{"named": "Point", "fields": [[name, …], …]}``. Tensors are counted from left to right.
Nothing of the model's own classes is kept: a dataclass is a dict, a named tuple is one of the same name and fields.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cross_backend.errors import RunError

Key = str | int
Constant = None | bool | int | float | str
Kind = Literal["tensor", "constant", "tuple", "list", "dict", "named"]

MAX_DEPTH = 50
"""Containers in containers."""


@dataclass(frozen=True)
class Node:
    """A tensor, a constant that is part of the program, or a container of such."""

    kind: Kind
    parts: tuple[tuple[Key, Node], ...] = ()
    """What a container holds, by position, key or field."""
    value: Constant = None
    """Of a constant; the type's name of a named tuple."""

    @functools.cached_property
    def count(self) -> int:
        """Number of tensors inside."""
        return 1 if self.kind == "tensor" else sum(part.count for _, part in self.parts)

    def __str__(self) -> str:
        keys = ", ".join(repr(key) for key, _ in self.parts)
        match self.kind:
            case "tensor":
                return "a tensor"
            case "constant":
                return repr(self.value)
            case "dict":
                return f"a dict of {keys or 'nothing'}"
            case "named":
                return f"a {self.value} of {keys}"
        return f"a {self.kind} of {len(self.parts)}"

    def build(self, tensors: Iterator[Any]) -> Any:
        """Put tensors together, in order."""
        if self.kind == "tensor":
            return next(tensors)
        if self.kind == "constant":
            return self.value
        built = [(key, part.build(tensors)) for key, part in self.parts]
        if self.kind == "dict":
            return dict(built)
        values = [value for _, value in built]
        if self.kind == "named":
            return _named(str(self.value), tuple(str(key) for key, _ in built))(*values)
        return values if self.kind == "list" else tuple(values)

    def take(self, value: Any, where: str) -> Iterator[Any]:
        """Return the tensors inside of a value, in order.

        Raises:
            RunError: it is made otherwise.
        """
        if self.kind == "tensor":
            yield value
        elif self.kind == "constant":
            if type(value) is not type(self.value) or value != self.value:
                raise RunError(
                    f"{where} was {self.value!r} when the model was captured, and the program is made for that; "
                    f"{_shown(value)} was given. Leave it out, or capture the model again."
                )
        else:
            given = self._entries(value, where)
            for key, part in self.parts:
                if key in given:
                    yield from part.take(given[key], f"{where}[{key!r}]")
                elif part.count:
                    raise RunError(f"{where} must be {self}; {key!r} is missing.")

    def _entries(self, value: Any, where: str) -> Mapping[Key, Any]:
        """Return what a container holds under the keys of this node."""
        keys = [key for key, _ in self.parts]
        given: Mapping[Key, Any] | None = None
        if self.kind in {"dict", "named"}:
            if isinstance(value, Mapping):
                given = value
            elif hasattr(value, "_fields") or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
                given = {key: getattr(value, key) for key in keys if isinstance(key, str) and hasattr(value, key)}
        if given is None and self.kind != "dict" and isinstance(value, list | tuple) and len(value) == len(keys):
            given = dict(zip(keys, value, strict=True))
        if given is None:
            raise RunError(f"{where} must be {self}, but {_shown(value)} was given.")
        unknown = [key for key in given if key not in keys]
        if unknown:
            raise RunError(f"{where} must be {self}, without {unknown[0]!r}.")
        return given

    def to_json(self) -> Any:
        """Return the node of a manifest."""
        if self.kind == "tensor":
            return self.kind
        if self.kind == "constant":
            return {self.kind: self.value}
        if self.kind == "named":
            return {self.kind: self.value, "fields": [[key, part.to_json()] for key, part in self.parts]}
        if self.kind == "dict":
            return {self.kind: [[key, part.to_json()] for key, part in self.parts]}
        return {self.kind: [part.to_json() for _, part in self.parts]}

    @classmethod
    def from_json(cls, row: Any, depth: int = 0) -> Node:
        """Read what :meth:`to_json` gave.

        Raises:
            ValueError, KeyError, TypeError: it is none.
        """
        if row == "tensor":
            return TENSOR
        if depth > MAX_DEPTH:
            raise ValueError(f"a structure is nested more than {MAX_DEPTH} deep")
        if not isinstance(row, dict) or set(row) - {"constant", "tuple", "list", "dict", "named", "fields"}:
            raise ValueError(f"{str(row)[:40]!r} is no structure")
        if "constant" in row:
            return constant(row["constant"])
        if "named" in row:
            return named_tuple(row["named"], [(key, cls.from_json(part, depth + 1)) for key, part in row["fields"]])
        if "dict" in row:
            return mapping([(key, cls.from_json(part, depth + 1)) for key, part in row["dict"]])
        ((kind, parts),) = row.items()
        return sequence(kind, [cls.from_json(part, depth + 1) for part in parts])


TENSOR = Node("tensor")


def constant(value: Any) -> Node:
    """Return the node of a number, a text, a truth value or None.

    Raises:
        ValueError: it is something else, or a number that JSON lacks.
    """
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"a {type(value).__name__} is no constant")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no constant that JSON can hold")
    return Node("constant", value=value)


def sequence(kind: Literal["tuple", "list"], parts: Sequence[Node]) -> Node:
    """Return the node of a tuple or list."""
    if kind not in {"tuple", "list"}:
        raise ValueError(f"{kind!r} is no kind of structure")
    return Node(kind, tuple(enumerate(parts)))


def mapping(parts: Sequence[tuple[Key, Node]]) -> Node:
    """Return the node of a dict.

    Raises:
        TypeError: a key is neither text nor whole number.
        ValueError: it is there twice.
    """
    keys = [key for key, _ in parts]
    for key in keys:
        if not isinstance(key, str | int):
            raise TypeError(f"a key is a {type(key).__name__}, neither text nor whole number")
    if len(set(keys)) < len(keys):
        raise ValueError("a key is there twice")
    return Node("dict", tuple(parts))


def named_tuple(name: str, fields: Sequence[tuple[str, Node]]) -> Node:
    """Return the node of a named tuple.

    Raises:
        ValueError, TypeError: a name is none of Python's.
    """
    _named(name, tuple(key for key, _ in fields))
    return Node("named", tuple(fields), name)


@functools.lru_cache(maxsize=64)
def _named(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields)  # noqa: PYI024  its names are those of a model


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return f"a {type(value).__name__}"


@dataclass(frozen=True)
class Structure:
    """What a model takes and returns."""

    arguments: tuple[tuple[str, Node], ...]
    """Name and make of each argument, in the order of the flat tensors."""
    outputs: Node

    @classmethod
    def of_flat(cls, names: Sequence[str], outputs: int) -> Structure:
        """Describe a program of which only its flat tensors are known: one output is itself, several are a tuple."""
        made = TENSOR if outputs == 1 else sequence("tuple", [TENSOR] * outputs)
        return cls(tuple((name, TENSOR) for name in names), made)

    @functools.cached_property
    def is_flat(self) -> bool:
        """Whether every argument is one tensor."""
        return all(node.kind == "tensor" for _, node in self.arguments)

    def take(self, args: Sequence[Any], named_args: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the flat tensors of a call.

        Args:
            args: positional arguments: the model's own, or all flat tensors.
            named_args: arguments by name.

        Raises:
            RunError: they are not what the model takes.
        """
        wanted = sum(node.count for _, node in self.arguments)
        tensors = all(hasattr(arg, "dtype") and hasattr(arg, "shape") for arg in args)
        if not named_args and (self.is_flat or (tensors and len(args) == wanted)):
            return tuple(args)
        given = self._by_name(args, named_args)
        taken: list[Any] = []
        for name, node in self.arguments:
            if name in given:
                taken.extend(node.take(given[name], name))
        return tuple(taken)

    def _by_name(self, args: Sequence[Any], named_args: Mapping[str, Any]) -> dict[str, Any]:
        names = [name for name, _ in self.arguments]
        given = {**dict(zip(names, args, strict=False)), **named_args}
        wrong = [f"{name!r} is none of them" for name in given if name not in names]
        wrong += [f"{name!r} was given twice" for name in names[: len(args)] if name in named_args]
        wrong += [f"{name!r} is missing" for name, node in self.arguments if name not in given and node.count]
        wrong += [f"{len(args)} were given"] if len(args) > len(names) else []
        if wrong:
            takes = ", ".join(f"{name}: {node}" for name, node in self.arguments) or "nothing"
            raise RunError(f"the model takes {takes}; {wrong[0]}.")
        return given

    def give(self, outputs: Sequence[Any]) -> Any:
        """Put flat outputs into the model's own structure."""
        return self.outputs.build(iter(outputs))

    def to_json(self) -> dict[str, Any]:
        """Return the ``structure`` of a manifest."""
        return {
            "arguments": [[name, node.to_json()] for name, node in self.arguments],
            "outputs": self.outputs.to_json(),
        }

    @classmethod
    def read(cls, row: Mapping[str, Any] | None, inputs: int, outputs: int) -> Structure | None:
        """Read the ``structure`` of a manifest, for so many flat tensors; None where older manifests have none.

        Raises:
            ValueError, KeyError, TypeError: it is none, or one of other numbers of tensors.
        """
        if row is None:
            return None
        found = cls.from_json(row)
        if (sum(node.count for _, node in found.arguments), found.outputs.count) != (inputs, outputs):
            raise ValueError("its structure holds other numbers of inputs or outputs")
        return found

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Structure:
        """Read what :meth:`to_json` gave.

        Raises:
            ValueError, KeyError, TypeError: it is none.
        """
        arguments = mapping([(str(name), Node.from_json(node)) for name, node in row["arguments"]]).parts
        return cls(tuple((str(name), node) for name, node in arguments), Node.from_json(row["outputs"]))
