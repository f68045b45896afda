"""Rules: how each ATen operator becomes instructions; one table, made of one module a family."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from atalla.lower import Rule

RULES: dict[str, Rule] = {}
"""``aten.add.Tensor`` → its rule."""
AnyRule = TypeVar("AnyRule", bound="Callable[..., object]")


def rule(*names: str) -> Callable[[AnyRule], AnyRule]:
    """Enter a function as the rule of operators, without their ``aten.``."""

    def enter(function: AnyRule) -> AnyRule:
        for name in names:
            assert f"aten.{name}" not in RULES, f"two rules for {name}"
            RULES[f"aten.{name}"] = function
        return function

    return enter


def all_rules() -> dict[str, Rule]:
    """Give the table, filled."""
    from atalla.rules import attention, convolution, elementwise, linear, movement, reductions, views  # noqa: F401

    return RULES
