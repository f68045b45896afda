"""Study files: YAML into a Study, every mistake told with its file, line and column, all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cross_backend.errors import CrossBackendError, UsageError
from cross_backend.study import fields, yaml_nodes
from cross_backend.study.fields import Field
from cross_backend.study.spec import OUTPUT, SETTINGS, STUDY, WORKLOAD, Study, StudyOutput, StudySettings, WorkloadSpec
from cross_backend.study.yaml_nodes import Broken, Items, Mistakes, Node, Text

_REQUIRED = ("workloads", "targets")
_ABSENT = object()
"""What a reader gives where it found a mistake, or nothing."""

_Reader = Callable[[Node], Any]


def read_study(path: Path) -> Study:
    """Read a study; models' paths are relative to the file. Imports no torch.

    Raises:
        StudyFileError: it cannot be read, or holds mistakes: one line each.
    """
    mistakes = Mistakes(path)
    root = yaml_nodes.parse(yaml_nodes.read_text(path, mistakes), mistakes)
    study = _FileReader(path, mistakes).study(root)
    mistakes.tell()
    assert study is not None, "what could not be read is among the mistakes"
    return study


class _FileReader:
    """Walks the tree; goes on after a mistake, so that all are told."""

    def __init__(self, path: Path, mistakes: Mistakes) -> None:
        self._path = path
        self._mistakes = mistakes

    def study(self, root: Node) -> Study | None:
        readers: dict[str, _Reader] = {key: self._field(key, one) for key, one in STUDY.items()}
        readers["workloads"] = lambda node: self._list("workloads", node, self._workload)
        readers["settings"] = lambda node: self._row("settings", node, SETTINGS, StudySettings)
        readers["output"] = lambda node: self._row("output", node, OUTPUT, StudyOutput)
        row = self._mapping("in a study", root, readers)
        if row is None:
            return None
        for key in _REQUIRED:
            if key not in row:
                self._mistakes.add(root.line, root.column, f"the key {key!r} is missing.")
        if "name" not in row:
            row["name"] = self._path.stem
        if _ABSENT in row.values() or any(key not in row for key in _REQUIRED):
            return None
        study: Study | None = self._built(root, lambda: Study(**row))
        return study

    def _built(self, node: Node, build: Callable[[], Any]) -> Any:
        """Build a value whose parts were checked; what does not go together is told where it begins."""
        try:
            return build()
        except UsageError as error:
            self._mistakes.add(node.line, node.column, error)
            return None

    def _mapping(self, where: str, node: Node, readers: Mapping[str, _Reader]) -> dict[str, Any] | None:
        if not isinstance(node, yaml_nodes.Mapping):
            self._mistakes.add(
                node.line, node.column, f"{node.kind} stands where keys are expected: {', '.join(readers)}."
            )
            return None
        row = {}
        for key, value in node.items:
            if key.value in readers:
                row[key.value] = _ABSENT if isinstance(value, Broken) else readers[key.value](value)
            else:
                self._mistakes.add(key.line, key.column, fields.unknown_key(where, key.value, readers))
        return row

    def _row(self, key: str, node: Node, table: Mapping[str, Field], build: Callable[..., Any]) -> Any:
        if isinstance(node, Text) and node.is_null:
            return build()
        row = self._mapping(f"in {key}", node, {name: self._field(name, one) for name, one in table.items()})
        if row is None or _ABSENT in row.values():
            return _ABSENT
        built = self._built(node, lambda: build(**row))
        return _ABSENT if built is None else built

    def _field(self, key: str, one: Field) -> _Reader:
        def read_one(node: Node) -> Any:
            return self._value(key, node, one)

        def read(node: Node) -> Any:
            if isinstance(node, Text) and node.is_null and one.may_be_empty:
                return () if one.many else None
            return self._list(key, node, read_one, may_be_empty=one.may_be_empty) if one.many else read_one(node)

        return read

    def _list(self, key: str, node: Node, read: _Reader, *, may_be_empty: bool = False) -> Any:
        if not isinstance(node, Items):
            example = f": write [{node.value}]" if isinstance(node, Text) and not node.is_null else ""
            self._mistakes.add(node.line, node.column, f"{key}: a list is expected, not {node.kind}{example}.")
            return _ABSENT
        if not node.items and not may_be_empty:
            self._mistakes.add(node.line, node.column, f"{key}: the list is empty.")
            return _ABSENT
        values = [_ABSENT if isinstance(item, Broken) else read(item) for item in node.items]
        return _ABSENT if _ABSENT in values else tuple(values)

    def _value(self, key: str, node: Node, one: Field) -> Any:
        """Read one text as a field's value, and look it up where it is a name."""
        if not isinstance(node, Text):
            self._mistakes.add(node.line, node.column, f"{key}: one value is expected, not {node.kind}.")
            return _ABSENT
        try:
            value = one.read(node.value)
            if one.known is not None:
                one.known(value)
        except CrossBackendError as error:
            self._mistakes.add(node.line, node.column, f"{key}: {error}")
            return _ABSENT
        return value

    def _workload(self, node: Node) -> Any:
        """Read a model's name, or a mapping with it and how it differs from the other models."""
        model = Field("the model", fields.text)
        readers = {
            "model": self._field("model", model),
            "weights": self._field("weights", replace(model, may_be_empty=True)),
            "batch_sizes": self._field("batch_sizes", WORKLOAD["batch_sizes"]),
        }
        row: dict[str, Any] | None
        if isinstance(node, yaml_nodes.Mapping):
            row = self._mapping("in a workload", node, readers)
        else:
            row = {"model": self._value("workloads", node, model)}
        if row is None or _ABSENT in row.values():
            return _ABSENT
        if "model" not in row:
            self._mistakes.add(node.line, node.column, "workloads: the key 'model' is missing.")
            return _ABSENT
        try:
            return WorkloadSpec.find(folder=self._path.parent, **row)
        except (CrossBackendError, OSError) as error:
            self._mistakes.add(node.line, node.column, f"workloads: {error}")
            return _ABSENT
