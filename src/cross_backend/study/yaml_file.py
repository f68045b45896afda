"""Study files: YAML into a StudySpec, every mistake told with its file, line and column, all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from cross_backend.errors import CrossBackendError, UsageError
from cross_backend.study import fields, yaml_nodes
from cross_backend.study.checked import STRICT, Checked, Many, Maybe, read_by, text_of
from cross_backend.study.machines import MachineClass
from cross_backend.study.spec import Batch, StudyOutput, StudySettings, StudySpec, WorkloadSpec

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_Text = Annotated[str, read_by(fields.text)]


@dataclass(frozen=True, config=STRICT)
class AskedWorkload(Checked):
    """A model with its own weights, batch sizes and inputs."""

    where: ClassVar[str] = WorkloadSpec.where

    model: _Text
    """A built-in name, or a file: ``m.onnx``, ``m.pt2``, ``m.py:function``."""
    weights: Maybe[_Text] = None
    """A checkpoint file, or a published name such as ``IMAGENET1K_V1``."""
    batch_sizes: Many[Batch] = ()
    """Batch sizes in place of the study's."""
    inputs: Many[_Text] = ()
    """Your own inputs, verified beside the example inputs."""
    generate: Many[Annotated[str, read_by(fields.length)]] = ()
    """Lengths of generated text, prompt and new tokens: ``128:64``."""


_ROWS: dict[Any, type[Checked]] = {
    "workloads": AskedWorkload,
    "settings": StudySettings,
    "output": StudyOutput,
    "machines": MachineClass,
}
"""What lies below a study's key; else it is the study."""


def read_study(path: Path) -> StudySpec:
    """Read a study; models' paths are relative to the file. Imports no torch.

    Raises:
        StudyFileError: it cannot be read, or holds mistakes: one line each.
    """
    mistakes = yaml_nodes.Mistakes(path)
    root = yaml_nodes.compose(yaml_nodes.read_text(path, mistakes), mistakes)
    given = yaml_nodes.value_of(root, mistakes)
    if isinstance(given, dict):
        given.setdefault("name", path.stem)
    try:
        study = TypeAdapter(StudySpec).validate_python(given, context=_finder(path.parent))
    except ValidationError as error:
        for mistake in error.errors():
            place = mistake["loc"]
            is_key = mistake["type"] == "unexpected_keyword_argument"
            node = yaml_nodes.find(root, place, key=is_key)
            if not yaml_nodes.is_broken(node):
                mistakes.add(*yaml_nodes.place_of(node.start_mark), text_of(mistake, _row_of(mistake)))
        mistakes.tell()
        raise
    mistakes.tell()
    return study


def read_mapping(given: Mapping[str, Any], folder: Path) -> StudySpec:
    """Read a study from a mapping with the keys of a study file.

    Args:
        given: the mapping.
        folder: where the models' relative paths begin.

    Raises:
        UsageError: it holds a mistake; the text begins with its key.
    """
    try:
        return TypeAdapter(StudySpec).validate_python({"name": "study", **given}, context=_finder(folder))
    except ValidationError as error:
        mistakes = error.errors()
        unknown = [one for one in mistakes if one["type"] == "unexpected_keyword_argument"]
        mistake = (unknown or mistakes)[0]  # a key that is missing may be the one that is misspelt
        raise UsageError(text_of(mistake, _row_of(mistake))) from error


def _row_of(mistake: ErrorDetails) -> type[Checked]:
    """Return the class whose keys a mistake is about."""
    place = mistake["loc"]
    is_key = mistake["type"] == "unexpected_keyword_argument"
    return _ROWS.get(place[0], StudySpec) if place[is_key:] else StudySpec


def _finder(folder: Path) -> Callable[[Any], WorkloadSpec]:
    """Return what finds a model by its name, or by a mapping with it."""

    def find(workload: Any) -> WorkloadSpec:
        if isinstance(workload, dict):
            asked = TypeAdapter(AskedWorkload).validate_python(workload, context=find)
        else:
            asked = AskedWorkload(TypeAdapter(_Text).validate_python(workload))
        try:
            return WorkloadSpec.find(folder=folder, **asdict(asked))
        except (CrossBackendError, OSError) as error:
            raise ValueError(str(error)) from error

    return find
