"""Reference, the products of bfloat16: sums in float32, in the order in which AMX adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from atalla.ir import Instruction

DEEP = 32
"""Depth whose even and odd products are added by themselves first."""
_LEAST = 2.0**-126
"""The smallest normal number of float32, and of bfloat16."""


def linear(src: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return BGEMM's sums, ``[…, N]`` of ``[…, K]`` and ``[N, K]``."""
    import torch

    a, w = _rounded(src).reshape(-1, src.shape[-1]), _rounded(weight)
    sums = torch.zeros(a.shape[0], w.shape[0]) if bias is None else bias.expand(a.shape[0], -1)
    for at in range(0, a.shape[1], DEEP):
        even, odd = (_sum(a[:, at + first : at + DEEP : 2], w[:, at + first : at + DEEP : 2]) for first in (0, 1))
        sums = _normal(_normal(sums) + _normal(even + odd))
    return sums.reshape(*src.shape[:-1], w.shape[0])


def convolution(
    instruction: Instruction, size: Sequence[int], src: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Return BCONV2D's sums, ``[B, N, …size[2:]]``; weight as ``torch.nn.functional.conv2d`` takes it."""
    import torch
    from torch.nn import functional

    whole = instruction.whole
    groups, (n, depth, high, wide) = whole("groups"), weight.shape
    image = functional.pad(src, (whole("left"), whole("right"), whole("top"), whole("bottom")))
    stride, dilation = (whole("stride_h"), whole("stride_w")), (whole("dilation_h"), whole("dilation_w"))
    windows = functional.unfold(image, (high, wide), dilation, 0, stride)  # [B, channels · taps, places]
    places = [(image.shape[i + 2] - dilation[i] * (weight.shape[i + 2] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    rows = windows.reshape(src.shape[0], groups, depth, high * wide, -1).permute(1, 0, 4, 3, 2)  # taps before channels
    filters = weight.reshape(groups, n // groups, depth, high * wide).transpose(2, 3)
    biases = [None] * groups if bias is None else bias.reshape(groups, -1)
    made = [
        linear(one.flatten(2), filter_.flatten(1), summand)
        for one, filter_, summand in zip(rows, filters, biases, strict=True)
    ]
    result = torch.cat(made, -1).transpose(1, 2).reshape(src.shape[0], n, *places)
    return result[..., : size[2], : size[3]]


def _sum(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return ``Σₖ a[m, k] · w[n, k]``, one after the other, each product and addition rounded at once.

    float64 holds a product of two bfloat16, and rounding its sum with a float32 twice is rounding it once: it has more
    than twice the digits and two (Figueroa, *When is double rounding innocuous?*, 1995).
    """
    import torch

    sums = torch.zeros(a.shape[0], w.shape[0])
    for k in range(a.shape[1]):
        sums = _normal((sums.double() + a[:, k, None].double() * w[None, :, k].double()).float())
    return sums


def _rounded(x: torch.Tensor) -> torch.Tensor:
    """Return numbers of bfloat16, as float32."""
    import torch

    return _normal(_normal(x.float()).to(torch.bfloat16).float())


def _normal(x: torch.Tensor) -> torch.Tensor:
    """Return zeros, of the same sign, for what is smaller than the smallest normal number."""
    return x.where(~(x.abs() < _LEAST), x * 0.0)
