"""Rule: how an operator becomes instructions, and the table in which the modules of ``rules`` enter theirs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from atalla.errors import UnsupportedError
from atalla.isa import Op
from atalla.passes.constraints import Constraint, Request, refuse

if TYPE_CHECKING:
    from atalla.passes.lowering import Lowering

AnyRule = TypeVar("AnyRule", bound="Callable[..., object]")


@dataclass(frozen=True)
class Rule:
    """How operators become instructions, and what must hold of their arguments."""

    function: Callable[..., Any]
    """Called with the lowering and the node's arguments as values; returns the node's value."""
    makes: tuple[Op, ...]
    """Instructions, apart from copies into another layout; none of a view."""
    constraints: tuple[Constraint, ...]
    signature: inspect.Signature
    folds: bool = False
    """Whether it makes constants of constants itself."""

    def __call__(self, low: Lowering, *arguments: Any, **named: Any) -> Any:
        """Lower a node.

        Raises:
            UnsupportedError: a constraint does not hold.
        """
        try:
            bound = self.signature.bind(low, *arguments, **named)
        except TypeError as error:
            raise UnsupportedError(f"Arguments must be those that the rule knows: {error}") from error
        bound.apply_defaults()
        asked = Request(low, bound.arguments)
        for constraint in self.constraints:
            if not constraint(asked):
                refuse(constraint)
        return self.function(low, *arguments, **named)


RULES: dict[str, Rule] = {}
"""``aten.add.Tensor`` → its rule."""


def rule(
    *names: str, makes: Sequence[Op] = (), needs: Sequence[Constraint] = (), folds: bool = False
) -> Callable[[AnyRule], AnyRule]:
    """Enter a function as the rule of operators; constraints are looked at in order.

    Args:
        names: of ATen's operators without their ``aten.``, of others with their namespace.
        makes: instructions.
        needs: what must hold of the arguments.
        folds: it makes constants of constants itself.
    """

    def enter(function: AnyRule) -> AnyRule:
        for name in names:
            full = name if name.count(".") > 1 else f"aten.{name}"
            assert full not in RULES, f"two rules for {full}"
            RULES[full] = Rule(function, tuple(makes), tuple(needs), inspect.signature(function), folds)
        return function

    return enter
