"""Guards: what some operators need of their arguments and do not look at themselves: else a blob could end a process.

Each was found by calling all operators of the list with arguments of every kind. torch's own callers, and programs that
``torch.export`` made, give what is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atalla.dtypes import dtypes

if TYPE_CHECKING:
    import torch

Arguments = Mapping[str, Any]
"""By name."""


def of_a_transform(given: Arguments) -> bool:
    """The dims must be those of the tensor, each once, counted from its first."""
    places = given["dim"]
    return (
        bool(places)
        and all(0 <= one < given["self"].dim() for one in places)
        and len(set(places)) == len(places)
        and all(given["self"].shape[one] > 0 for one in places)
        and given["normalization"] in {0, 1, 2}
    )


def of_complex_numbers(given: Arguments) -> bool:
    """The numbers must be complex, and the dims those of the tensor, each once."""
    return given["self"].is_complex() and of_a_transform(given)


def of_half_a_spectrum(given: Arguments) -> bool:
    """The numbers must be half of a spectrum of real numbers, and the dims those of the tensor, each once."""
    return of_complex_numbers(given) and given["self"].shape[given["dim"][-1]] == given["last_dim_size"] // 2 + 1


def of_real_numbers(given: Arguments) -> bool:
    """The numbers must be float32 or float64, and the dims those of the tensor, each once."""
    return _is_usual(given["self"]) and of_a_transform(given)


def of_bags(given: Arguments) -> bool:
    """Indices must be rows of the table, and bags begin at 0, each behind the one before."""
    table, indices, offsets = (given[name] for name in ("weight", "indices", "offsets"))
    weights = given.get("per_sample_weights")
    has_end = bool(given.get("include_last_offset", False))
    return (
        table.is_floating_point()
        and (table.dim(), indices.dim(), offsets.dim()) == (2, 1, 1)
        and _is_index(indices)
        and offsets.dtype is indices.dtype
        and given.get("mode", 0) in {0, 1, 2}
        and bool(((indices >= 0) & (indices < table.shape[0])).all())
        and len(offsets) > has_end
        and int(offsets[0]) == 0
        and bool((offsets.diff() >= 0).all())
        and (int(offsets[-1]) == len(indices) if has_end else int(offsets[-1]) <= len(indices))
        and (weights is None or (weights.dtype is table.dtype and weights.shape == indices.shape))
        and -1 <= given.get("padding_idx", -1) < table.shape[0]
    )


def of_points(given: Arguments) -> bool:
    """The points must be rows of a float32 or float64 matrix, and the norm not below 0."""
    return _is_usual(given["self"]) and given["self"].dim() == 2 and given.get("p", 2.0) >= 0


def of_a_norm_without_statistics(given: Arguments) -> bool:
    """It must compute the statistics of its input, and have one weight a channel."""
    x, parts = given["input"], [given.get(name) for name in ("weight", "bias")]
    return (
        bool(given["training"])
        and x.dim() >= 2
        and x.is_floating_point()
        and x.numel() > 0
        and all(one is None or (one.shape == x.shape[1:2] and one.is_floating_point()) for one in parts)
    )


def of_a_weight_norm(given: Arguments) -> bool:
    """There must be one magnitude for each row or column of the weight, of its type."""
    weight, magnitude, place = given["v"], given["g"], given.get("dim", 0)
    return (
        weight.dim() > 0
        and weight.numel() > 0
        and _is_usual(weight)
        and magnitude.dtype is weight.dtype
        and place in {0, weight.dim() - 1}
        and magnitude.numel() == weight.shape[place]
    )


def of_finite_numbers(given: Arguments) -> bool:
    """All numbers must be finite."""
    return bool(given["self"].isfinite().all())


GUARDS: Mapping[str, Callable[[Arguments], bool]] = {
    "aten._embedding_bag.default": of_bags,
    "aten._embedding_bag_forward_only.default": of_bags,
    "aten._fft_c2c.default": of_complex_numbers,
    "aten._fft_c2r.default": of_half_a_spectrum,
    "aten._fft_r2c.default": of_real_numbers,
    "aten._linalg_eigvals.default": of_finite_numbers,
    "aten._native_batch_norm_legit.no_stats": of_a_norm_without_statistics,
    "aten._pdist_forward.default": of_points,
    "aten._weight_norm_interface.default": of_a_weight_norm,
    "aten.linalg_eig.default": of_finite_numbers,
    "aten.linalg_eigvals.default": of_finite_numbers,
}
"""Operator → what it needs, of which the docstring is what a user is told."""


def guard(operator: torch._ops.OpOverload, positional: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Look at the arguments of an operator as far as it does not do so itself.

    Raises:
        ValueError: they do not fit.
    """
    names, choices, rule = _checks_of(operator)
    given = {**dict(zip(names, positional, strict=False)), **named}
    for name, allowed in choices:
        if given.get(name) not in allowed:
            raise ValueError(f"{name} must be one that a blob can hold")
    if given.get("pin_memory"):
        raise ValueError("Memory must not be pinned")
    if rule is not None and not rule(given):
        raise ValueError((rule.__doc__ or "").rstrip("."))


@functools.cache
def _checks_of(
    operator: torch._ops.OpOverload,
) -> tuple[list[str], list[tuple[str, tuple[object, ...]]], Callable[[Arguments], bool] | None]:
    """Return the names of an operator's arguments, what those of torch's own kinds may be, and the operator's guard."""
    arguments, choices = operator._schema.arguments, _choices()  # noqa: SLF001  it has no other name
    kinds = [(one.name, str(one.real_type).removeprefix("Optional[").removesuffix("]")) for one in arguments]
    allowed = [(name, (None, *choices[kind])) for name, kind in kinds if kind in choices]
    return [one.name for one in arguments], allowed, GUARDS.get(str(operator))


def _choices() -> Mapping[str, tuple[object, ...]]:
    """Return what arguments of torch's own kinds may be; an operator takes any number for them, whatever it means."""
    import torch

    return {
        "ScalarType": (*dtypes(), torch.complex32, torch.complex64, torch.complex128),
        "Layout": (torch.strided,),
        "MemoryFormat": (
            *(torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d),
        ),
    }


def _is_usual(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.dtype in {torch.float32, torch.float64}


def _is_index(tensor: torch.Tensor) -> bool:
    import torch

    return tensor.dtype in {torch.int32, torch.int64}
