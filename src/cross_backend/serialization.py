"""Serialization: dataclasses as JSON values, and back."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from cattrs import Converter

Value = TypeVar("Value")


@functools.cache
def _converter() -> Converter:
    from cattrs import Converter

    converter = Converter()
    converter.register_unstructure_hook(Path, str)
    converter.register_structure_hook(Path, lambda text, _: Path(text))
    converter.register_structure_hook(type(None), lambda _value, _type: None)
    converter.register_structure_hook(int | str, lambda value, _: value if isinstance(value, int) else str(value))
    return converter


def to_json(value: Any) -> Any:
    """Return a dataclass, or a structure of them, as dicts, lists, texts and numbers."""
    return _converter().unstructure(value)


def from_json(kind: type[Value], value: Any) -> Value:
    """Read what :func:`to_json` gave for a value of this type.

    Raises:
        Exception: as cattrs raises it; the value is not of this type.
    """
    return _converter().structure(value, kind)
