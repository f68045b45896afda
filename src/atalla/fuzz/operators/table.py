"""Table: operator of torch → the function that adds a call of it to a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from atalla.fuzz.draw import Draw

Make = Callable[[Draw, str], object]
"""Adds calls, the last of which is of the operator of that name."""
AnyMake = TypeVar("AnyMake", bound=Callable[..., object])
MAKERS: dict[str, Make] = {}
"""``aten.add.Tensor`` → what adds it; filled by the modules beside this one."""


def makes(*names: str) -> Callable[[AnyMake], AnyMake]:
    """Enter a function for operators of ATen, or for those of another namespace by their whole name."""

    def enter(function: AnyMake) -> AnyMake:
        for name in names:
            full = name if name.count(".") > 1 else f"aten.{name}"
            assert full not in MAKERS, f"{full} is entered twice"
            MAKERS[full] = function
        return function

    return enter
