"""Options: what the target of a backend may carry, ``?precision=int8&threads=1``, and how its text is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cross_backend.errors import UsageError, unknown_name

Options = Mapping[str, Any]
"""Validated options of a target: every key that the backend declares, with its value or default."""


@dataclass(frozen=True)
class Option:
    """One option that a target of this backend may carry."""

    help: str
    """What it does, in one line."""
    default: int | str | None
    """Value where the target names none."""
    choices: tuple[str, ...] = ()
    """Allowed texts; empty for a positive whole number."""
    at: Literal["lower", "load"] = "lower"
    """Whether it shapes the payload, or only how a session opens it."""
    at_lowering: frozenset[str] = frozenset()
    """Values that shape the payload where the others do not."""

    def shapes_payload(self, value: str) -> bool:
        """Whether an option's value takes part in lowering."""
        return self.at == "lower" or value in self.at_lowering

    def parse(self, key: str, text: str) -> int | str:
        """Convert and check a text.

        Raises:
            UsageError: not an allowed value.
        """
        if self.choices:
            if text not in self.choices:
                raise unknown_name(f"value for option {key!r}:", text, self.choices)
            return text
        if not text.isdecimal() or not 1 <= int(text) <= 4096:
            raise UsageError(f"option {key!r} takes a whole number from 1 to 4096, not {text!r}.")
        return int(text)


THREADS = Option("CPU threads that a session uses; the runtime's own choice where not given", None, at="load")
