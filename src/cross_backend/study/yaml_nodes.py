"""YAML as a tree of texts that know their line and column; nothing in it is expanded, typed by guess or run.

Only mappings, lists and texts are read. Aliases (which can expand to gigabytes), merge keys, tags (which can
name Python objects) and further documents are refused, and so is what is too large or too deep. The field that a
text is read for decides what it means, so ``no`` is never a Boolean and ``1.10`` never a number by accident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import yaml

from cross_backend.errors import StudyFileError
from cross_backend.study.checked import Nothing

MAX_BYTES = 1_000_000
MAX_DEPTH = 10
MAX_NODES = 20_000
MOST_MISTAKES = 50
"""So many are told of one file."""
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BROKEN = "!broken"
"""Tag of what is among the mistakes already, and not to be complained of again; tags of files are not kept."""


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


def compose(text: str, mistakes: Mistakes) -> yaml.Node:
    """Read one document.

    Raises:
        StudyFileError: it is not YAML, empty, too deep, too long, or more than one.
    """
    try:
        return _Composer(text, mistakes).document()
    except yaml.reader.ReaderError as error:
        mistakes.stop(*_end_of(text[: error.position]), "a control character, which YAML does not allow.")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f" {error.context}" if error.context else ""
        quote = " Put a text that holds ? into quotes." if mark and text[mark.index : mark.index + 1] == "?" else ""
        mistakes.stop(*(place_of(mark) if mark else (1, 1)), f"not YAML: {error.problem}{context}.{quote}")
    except (ValueError, OverflowError):  # PyYAML reads them with int() and chr()
        mistakes.stop(1, 1, "not YAML: a number in an escape or a directive is too large.")


class _Composer(yaml.BaseLoader):  # type: ignore[misc]  # PyYAML has no types
    """Composes nodes from events, which PyYAML makes one by one: what is refused is never expanded."""

    def __init__(self, text: str, mistakes: Mistakes) -> None:
        super().__init__(text)
        self._mistakes = mistakes
        self._count = 0
        self._depth = 0

    def document(self) -> yaml.Node:
        self.get_event()  # the stream's start
        if self.check_event(yaml.StreamEndEvent):
            self._mistakes.stop(1, 1, "the file is empty.")
        root = self.compose_document()
        if not self.check_event(yaml.StreamEndEvent):
            place = place_of(self.get_event().start_mark)
            self._mistakes.stop(*place, "a second document begins: a study is one document.")
        return root

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        event = self.peek_event()
        place = place_of(event.start_mark)
        self._count += 1
        if self._depth == MAX_DEPTH:
            self._mistakes.stop(*place, f"nested more than {MAX_DEPTH} deep.")
        if self._count > MAX_NODES:
            self._mistakes.stop(*place, f"more than {MAX_NODES} values: that is no study.")
        if self.check_event(yaml.AliasEvent):
            self.get_event()
            self._mistakes.add(*place, f"aliases are not read: write out what *{event.anchor} stands for.")
            return yaml.ScalarNode(_BROKEN, "", event.start_mark, event.end_mark)
        if event.anchor is not None:
            self._mistakes.add(*place, f"anchors are not read: leave &{event.anchor} out.")
        if event.tag is not None:
            self._mistakes.add(*place, f"tags are not read: leave {event.tag[:40]!r} out.")
        event.anchor = event.tag = None
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def value_of(node: yaml.Node, mistakes: Mistakes) -> Any:
    """Return a node as dicts, lists and texts; a key that is repeated is there once, and among the mistakes."""
    if isinstance(node, yaml.MappingNode):
        return {key: value_of(value, mistakes) for key, value in _pairs(node, mistakes)}
    if isinstance(node, yaml.SequenceNode):
        return [value_of(item, mistakes) for item in node.value]
    if is_broken(node):
        return node  # which no field takes
    return Nothing(node.value) if node.style is None and node.value in _NULLS else node.value


def _pairs(node: yaml.MappingNode, mistakes: Mistakes) -> Iterator[tuple[str, yaml.Node]]:
    lines: dict[str, int] = {}
    for key, value in node.value:
        line, column = place_of(key.start_mark)
        if is_broken(key):
            continue
        if not isinstance(key, yaml.ScalarNode):
            kind = "a list" if isinstance(key, yaml.SequenceNode) else "a mapping"
            mistakes.add(line, column, f"a key is a text, not {kind}.")
        elif key.value == "<<" and key.style is None:
            mistakes.add(line, column, "merge keys are not read: write out what << stands for.")
        elif key.value in lines:
            mistakes.add(line, column, f"key {key.value!r} is given twice, first in line {lines[key.value]}.")
        else:
            lines[key.value] = line
            yield key.value, value


def find(root: yaml.Node, place: Iterable[int | str], *, key: bool = False) -> yaml.Node:
    """Return the node at a place, or the deepest on the way to it; with ``key``, the key that leads there."""
    name = node = root
    for part in place:
        if isinstance(node, yaml.MappingNode):
            name, node = next((pair for pair in node.value if pair[0].value == part), (node, node))
        elif isinstance(node, yaml.SequenceNode):
            name = node = node.value[part]
    return name if key else node


def is_broken(node: yaml.Node) -> bool:
    """Whether it is among the mistakes already."""
    return bool(node.tag == _BROKEN)


def place_of(mark: yaml.Mark) -> tuple[int, int]:
    """Return line and column, from 1."""
    return mark.line + 1, mark.column + 1
