"""Variants: what an operator would compute with a fault that runtimes are known for, to compare with what was got."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MOST_SQUARE = 4096
"""Rows of the largest weight that is transposed."""
_TRUNCATES = "it divides toward 0 where the program rounds down"
_FLOORS = "it rounds down where the program divides toward 0"


def variants_of(node: Any, tensor: Callable[[Any], Any]) -> list[tuple[str, list[Any]]]:
    """Return what an operator computes with another attribute, a transposed weight, or a neighbour's rule.

    Args:
        node: of a graph of aten's operators.
        tensor: returns the value of one of the node's inputs.

    Returns:
        (the fault in words, its results); faults that do not apply to these arguments are left out.
    """
    import torch
    from torch.fx.node import map_arg

    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return []
    args, kwargs = map_arg((node.args, dict(node.kwargs)), tensor)
    found = []
    for words, target, given, named in _calls(node.target, schema, list(args), kwargs):
        with contextlib.suppress(Exception), torch.no_grad():  # what torch refuses, no runtime computes either
            made = target(*given, **named)
            found.append((words, list(made) if isinstance(made, list | tuple) else [made]))
    return found


def _calls(
    target: Any, schema: Any, args: list[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any, Sequence[Any], dict[str, Any]]]:
    import torch

    for at, argument in enumerate(schema.arguments):
        is_named = argument.name in kwargs
        if not is_named and at >= len(args):
            continue
        value = kwargs[argument.name] if is_named else args[at]
        if isinstance(value, torch.Tensor):
            if value.dim() == 2 and at > 0 and value.shape[0] == value.shape[1] <= MOST_SQUARE:
                yield "transposed weights", target, [*args[:at], value.T, *args[at + 1 :]], kwargs
            continue
        for other in _others(value, argument):
            words = f"attribute {argument.name} ignored: the result is that of {argument.name}={other}"
            if is_named:
                yield words, target, args, {**kwargs, argument.name: other}
            else:
                yield words, target, [*args[:at], other, *args[at + 1 :]], kwargs
    yield from _rules(target, args, kwargs)


def _others(value: Any, argument: Any) -> Iterator[Any]:
    """Yield the values that a runtime would use that does not read an attribute: its default, or the other truth."""
    if argument.has_default_value() and argument.default_value != value:
        yield argument.default_value
    if isinstance(value, bool) and not (argument.has_default_value() and argument.default_value != value):
        yield not value
    if isinstance(value, list) and value and all(isinstance(one, int) for one in value) and "pad" in argument.name:
        yield [0] * len(value)


def _rules(
    target: Any, args: list[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any, Sequence[Any], dict[str, Any]]]:
    """Yield operators that runtimes put in the place of others."""
    import torch

    aten, name = torch.ops.aten, str(target).split(".")[1]
    if name == "floor_divide" or kwargs.get("rounding_mode") == "floor":
        yield _TRUNCATES, torch.div, args[:2], {"rounding_mode": "trunc"}
    if kwargs.get("rounding_mode") == "trunc":
        yield _FLOORS, torch.div, args[:2], {"rounding_mode": "floor"}
    if name == "remainder":
        yield "its remainder has the sign of the dividend, not of the divisor", torch.fmod, args[:2], {}
    if name == "round":
        up = torch.floor(args[0] + 0.5)
        yield "ties: halves are rounded up, not to even", lambda: up, [], {}
        away = torch.sign(args[0]) * torch.floor(args[0].abs() + 0.5)
        yield "ties: halves are rounded away from 0, not to even", lambda: away, [], {}
    exact = {"upsample_nearest2d": aten._upsample_nearest_exact2d, "upsample_nearest1d": aten._upsample_nearest_exact1d}  # noqa: SLF001
    if name in exact:
        words = "its nearest pixel is that of 'nearest-exact' (centres of pixels), not of 'nearest'"
        yield words, exact[name], args, kwargs
    if name == "gelu":
        yield "gelu by tanh, not by the error function", target, args[:1], {"approximate": "tanh"}
    if name in {"max_pool2d", "max_pool2d_with_indices"} and len(args) > 3:
        padded = torch.nn.functional.pad(args[0], [p for p in reversed(args[3]) for _ in (0, 1)])
        yield "padding with 0, not with −∞", target, [padded, args[1], args[2], 0, *args[4:]], kwargs
