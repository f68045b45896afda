"""Study files: YAML into a Study, every mistake told with its file, line and column, all of them together."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from cross_backend.errors import CrossBackendError
from cross_backend.study import fields, yaml_nodes
from cross_backend.study.checked import STRICT, Checked, Many, Maybe, read_by, text_of
from cross_backend.study.spec import Batch, Study, StudyOutput, StudySettings, WorkloadSpec

_Text = Annotated[str, read_by(fields.text)]


@dataclass(frozen=True, config=STRICT)
class _Asked(Checked):
    """A model, and how it differs from the other models."""

    where: ClassVar[str] = WorkloadSpec.where

    model: _Text
    weights: Maybe[_Text] = None
    batch_sizes: Many[Batch] = ()
    inputs: Many[_Text] = ()


_ROWS: dict[Any, type[Checked]] = {"workloads": _Asked, "settings": StudySettings, "output": StudyOutput}
"""What lies below a study's key; else it is the study."""


def read_study(path: Path) -> Study:
    """Read a study; models' paths are relative to the file. Imports no torch.

    Raises:
        StudyFileError: it cannot be read, or holds mistakes: one line each.
    """
    mistakes = yaml_nodes.Mistakes(path)
    root = yaml_nodes.compose(yaml_nodes.read_text(path, mistakes), mistakes)
    given = yaml_nodes.value_of(root, mistakes)
    if isinstance(given, dict):
        given.setdefault("name", path.stem)

    def find(workload: Any) -> WorkloadSpec:
        """Find a model by its name, or by a mapping with it."""
        if isinstance(workload, dict):
            asked = TypeAdapter(_Asked).validate_python(workload, context=find)
        else:
            asked = _Asked(TypeAdapter(_Text).validate_python(workload))
        try:
            return WorkloadSpec.find(folder=path.parent, **asdict(asked))
        except (CrossBackendError, OSError) as error:
            raise ValueError(str(error)) from error

    try:
        study = TypeAdapter(Study).validate_python(given, context=find)
    except ValidationError as error:
        for mistake in error.errors():
            place = mistake["loc"]
            is_key = mistake["type"] == "unexpected_keyword_argument"
            node = yaml_nodes.find(root, place, key=is_key)
            if not yaml_nodes.is_broken(node):
                row = _ROWS.get(place[0], Study) if place[is_key:] else Study
                mistakes.add(*yaml_nodes.place_of(node.start_mark), text_of(mistake, row))
        mistakes.tell()
        raise
    mistakes.tell()
    return study
