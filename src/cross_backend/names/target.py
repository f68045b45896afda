"""Target: a backend and its options in one string, ``name?key=value&key=value``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cross_backend.errors import UsageError

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_OPTION = re.compile(r"(?P<key>[a-z][a-z0-9_]*)=(?P<value>[^&?=]+)")


@dataclass(frozen=True)
class Target:
    """A backend with options.

    Example:
        >>> target = xb.Target.parse("xnnpack?precision=int8")
        >>> target.name, target.options["precision"]
        ('xnnpack', 'int8')
    """

    name: str
    """Backend name as the user wrote it, or the full name once resolved by the registry."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Option texts by key, in the order of their keys."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", MappingProxyType(dict(sorted(self.options.items()))))

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``executorch.xnnpack?precision=int8&threads=1``.

        Raises:
            UsageError: the text is not of that form.
        """
        name, mark, query = text.strip().partition("?")
        if not _NAME.fullmatch(name) or not query.isprintable():
            raise UsageError(
                f"not a target: {text!r}. Write NAME or NAME?key=value&key=value, for example xnnpack?threads=1."
            )
        options: dict[str, str] = {}
        for part in query.split("&") if mark else []:
            match = _OPTION.fullmatch(part)
            if match is None:
                raise UsageError(f"not an option: {part!r} in target {text!r}. Write key=value, joined by &.")
            if match["key"] in options:
                raise UsageError(f"option {match['key']!r} is given twice in target {text!r}.")
            options[match["key"]] = match["value"]
        return cls(name, options)

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name}?{query}" if query else self.name

    def __hash__(self) -> int:
        return hash(str(self))
