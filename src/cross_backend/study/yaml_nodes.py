"""YAML as a tree of texts that know their line and column; nothing in it is expanded, typed by guess or run.

Only mappings, lists and texts are read. Aliases (which can expand to gigabytes), merge keys, tags (which can
name Python objects) and further documents are refused, and so is what is too large or too deep. The field that a
text is read for decides what it means, so ``no`` is never a Boolean and ``1.10`` never a number by accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cross_backend.errors import StudyFileError

MAX_BYTES = 1_000_000
MAX_DEPTH = 10
MAX_NODES = 20_000
MOST_MISTAKES = 50
"""So many are told of one file."""
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True)
class Node:
    """One value and where it begins, both counted from 1."""

    line: int
    column: int

    @property
    def kind(self) -> str:
        """Return what a message calls it."""
        if isinstance(self, Text) and self.is_null:
            return "nothing"
        return {Text: "a text", Items: "a list", Mapping: "a mapping"}.get(type(self), "nothing")


@dataclass(frozen=True)
class Broken(Node):
    """What is among the mistakes already, and not to be complained of again."""


@dataclass(frozen=True)
class Text(Node):
    """A scalar, whatever its style."""

    value: str
    plain: bool
    """Whether it was written without quotes."""

    @property
    def is_null(self) -> bool:
        """Whether nothing was written, or ``null``."""
        return self.plain and self.value in _NULLS


@dataclass(frozen=True)
class Items(Node):
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Mapping(Node):
    """Keys and values in the order of the file; a key that is repeated is here once, and among the mistakes."""

    items: tuple[tuple[Text, Node], ...]


class Mistakes:
    """What is wrong with one file, told together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[tuple[int, int, str]] = []

    def add(self, line: int, column: int, text: object) -> None:
        """Remember a mistake and go on."""
        self._found.append((line, column, str(text)))

    def stop(self, line: int, column: int, text: object) -> NoReturn:
        """Tell all mistakes; after this one nothing can be read."""
        self.add(line, column, text)
        self.tell()
        raise AssertionError("unreachable")

    def tell(self) -> None:
        """Raise if there are mistakes.

        Raises:
            StudyFileError: with one line for each, in the order of the file.
        """
        found = sorted(self._found, key=lambda found: found[:2])
        if len(found) > MOST_MISTAKES:
            line, column, _ = found[MOST_MISTAKES]
            found = [*found[:MOST_MISTAKES], (line, column, f"… and {len(found) - MOST_MISTAKES} more mistakes.")]
        if found:
            raise StudyFileError([f"{self._path}:{line}:{column}: {text}" for line, column, text in found])


def read_text(path: Path, mistakes: Mistakes) -> str:
    """Read a file as UTF-8.

    Raises:
        StudyFileError: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise StudyFileError([f"cannot read {path}: {error.strerror}."]) from error
    if len(data) > MAX_BYTES:
        raise StudyFileError([f"{path} is larger than {MAX_BYTES // 10**6} MB: that is no study."])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig")
        mistakes.stop(*_end_of(before), "not UTF-8 text.")


def _end_of(text: str) -> tuple[int, int]:
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1


def parse(text: str, mistakes: Mistakes) -> Node:
    """Read one document.

    Raises:
        StudyFileError: it is not YAML, empty, too deep, too long, or more than one.
    """
    import yaml

    try:
        reader = _Reader(yaml.parse(text, Loader=yaml.SafeLoader), mistakes)
        return reader.document()
    except yaml.reader.ReaderError as error:
        mistakes.stop(*_end_of(text[: error.position]), "a control character, which YAML does not allow.")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        context = f" {error.context}" if error.context else ""
        quote = " Put a text that holds ? into quotes." if mark and text[mark.index : mark.index + 1] == "?" else ""
        mistakes.stop(line, column, f"not YAML: {error.problem}{context}.{quote}")
    except (ValueError, OverflowError):  # PyYAML reads them with int() and chr()
        mistakes.stop(1, 1, "not YAML: a number in an escape or a directive is too large.")


class _Reader:
    """Builds the tree from PyYAML's events, which it makes one by one: what is refused is never expanded."""

    def __init__(self, events: Iterator[Any], mistakes: Mistakes) -> None:
        import yaml

        self._kinds = yaml.events
        self._events = events
        self._mistakes = mistakes
        self._count = 0

    def document(self) -> Node:
        next(self._events)  # the stream's start
        start = next(self._events)
        if isinstance(start, self._kinds.StreamEndEvent):
            self._mistakes.stop(1, 1, "the file is empty.")
        root = self._node(next(self._events), 1)
        next(self._events)  # the document's end
        further = next(self._events)
        if isinstance(further, self._kinds.DocumentStartEvent):
            self._mistakes.stop(*_place(further), "a second document begins: a study is one document.")
        return root

    def _node(self, event: Any, depth: int) -> Node:
        line, column = _place(event)
        self._count += 1
        if depth > MAX_DEPTH:
            self._mistakes.stop(line, column, f"nested more than {MAX_DEPTH} deep.")
        if self._count > MAX_NODES:
            self._mistakes.stop(line, column, f"more than {MAX_NODES} values: that is no study.")
        if isinstance(event, self._kinds.AliasEvent):
            self._mistakes.add(line, column, f"aliases are not read: write out what *{event.anchor} stands for.")
            return Broken(line, column)
        if event.anchor is not None:
            self._mistakes.add(line, column, f"anchors are not read: leave &{event.anchor} out.")
        if event.tag is not None:
            self._mistakes.add(line, column, f"tags are not read: leave {event.tag[:40]!r} out.")
        if isinstance(event, self._kinds.ScalarEvent):
            return Text(line, column, event.value, plain=event.style is None)
        if isinstance(event, self._kinds.SequenceStartEvent):
            return Items(line, column, tuple(self._items(depth)))
        return Mapping(line, column, tuple(self._pairs(depth)))

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), self._kinds.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _pairs(self, depth: int) -> Iterator[tuple[Text, Node]]:
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), self._kinds.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            if isinstance(key, Broken):
                continue
            if not isinstance(key, Text):
                self._mistakes.add(key.line, key.column, f"a key is a text, not {key.kind}.")
            elif key.value == "<<" and key.plain:
                self._mistakes.add(key.line, key.column, "merge keys are not read: write out what << stands for.")
            elif key.value in lines:
                before = lines[key.value]
                self._mistakes.add(key.line, key.column, f"key {key.value!r} is given twice, first in line {before}.")
            else:
                lines[key.value] = key.line
                yield key, value


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
