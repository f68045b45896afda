"""Checked: pydantic's dataclasses and fields, whose mistakes are told in our own words."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass as plain_dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.dataclasses import dataclass

from cross_backend.errors import CrossBackendError, UsageError
from cross_backend.study.fields import FieldReader, shown

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, ErrorDetails

STRICT = ConfigDict(extra="forbid")
T = TypeVar("T")


@dataclass(frozen=True)
class Checked:
    """A row that is checked while it is built; the first mistake is told, or all that are in a file (the context)."""

    where: ClassVar[str]
    """What a message calls it."""

    @model_validator(mode="wrap")
    @classmethod
    def _tell_first(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        try:
            return handler(given)
        except ValidationError as error:
            if info.context is not None:
                raise
            raise UsageError(text_of(error.errors()[0], cls)) from error


def text_of(mistake: ErrorDetails, row: Any) -> str:
    """Return one mistake in a row of this class, in one line that begins with the nearest key."""
    keys, place = tuple(row.__pydantic_fields__), list(mistake["loc"])
    match mistake["type"]:
        case "unexpected_keyword_argument":
            return _unknown_key(str(place[-1]), keys, row.where)
        case "dataclass_type":
            return f"{shown(mistake['input'])} stands where keys are expected: {', '.join(keys)}."
        case "missing":
            text = f"the key {place.pop()!r} is missing."
        case _:
            text = str(mistake.get("ctx", {}).get("error") or f"{mistake['msg']}, not {shown(mistake['input'])}.")
    names = [keys[part] if index == 0 and isinstance(part, int) else part for index, part in enumerate(place)]
    return ": ".join([*[str(name) for name in names if isinstance(name, str)][-1:], text])


def _unknown_key(key: str, keys: tuple[str, ...], where: str) -> str:
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]!r}?" if near else f"Keys: {', '.join(sorted(keys))}."
    return f"unknown key {shown(key)} in {where}. {hint}"


class Nothing(str):
    """What YAML reads as null; a key that may be empty takes it so, another one as the text that it is."""

    __slots__ = ()


def read_by(read: FieldReader[Any], known: Callable[[str], None] | None = None) -> PlainValidator:
    """Return what converts and checks one value of a field.

    Args:
        read: converts it; raises UsageError.
        known: looks a name up here and now; what was stored is read without it.
    """

    def check(given: Any, info: ValidationInfo) -> Any:
        try:
            if isinstance(given, list | tuple | Mapping):
                raise UsageError(f"one value is expected, not {shown(given)}.")
            value = read(given)
            if known is not None and info.context is not None:
                known(value)
        except CrossBackendError as error:
            raise ValueError(str(error)) from error
        return value

    return PlainValidator(check, json_schema_input_type=Annotated[Any, WithJsonSchema(dict(read.schema))])


def _listed(given: Any) -> tuple[Any, ...]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        example = f": write [{given}]" if isinstance(given, str | int) and 0 < len(str(given)) <= 60 else ""
        raise ValueError(f"a list is expected, not {shown(given)}{example}.")  # noqa: TRY004  what pydantic collects
    return tuple(given)


def _once(values: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def _filled(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        raise ValueError("the list is empty.")
    return values


def _nothing_is(default: Any) -> BeforeValidator:
    return BeforeValidator(lambda given: default if isinstance(given, Nothing) else given)


@plain_dataclass(frozen=True)
class _Described:
    """Changes the JSON Schema of a field, which does not see what validators do."""

    change: Callable[[dict[str, Any]], dict[str, Any]]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return self.change(handler(core))


NULLABLE = _Described(lambda schema: {"anyOf": [schema, {"type": "null"}]})
"""Marks a field that a file may leave empty."""
_FILLED = _Described(lambda schema: schema | {"minItems": 1})
Maybe = Annotated[T | None, _nothing_is(None)]
"""One value or none."""
Many = Annotated[tuple[T, ...], BeforeValidator(_listed), AfterValidator(_once), _nothing_is(()), NULLABLE]
"""A list without duplicates."""
Some = Annotated[tuple[T, ...], BeforeValidator(_listed), AfterValidator(_once), AfterValidator(_filled), _FILLED]
"""A list without duplicates that is not empty."""
EMPTY = _nothing_is({})
"""Marks a mapping whose keys all have defaults."""
