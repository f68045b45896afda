"""Quantised modules for tests: operators of ``quantized_decomposed`` in a module's own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch import nn
from torch.nn import functional

Q = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


class Calls(nn.Module):
    """A function of tensors, as a module."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)
        self.names = list(buffers)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs, *(getattr(self, name) for name in self.names))


def quantized(x: torch.Tensor, scale: float = 0.05, zero: int = 0) -> torch.Tensor:
    """Quantise to int8."""
    return Q.quantize_per_tensor(x, scale, zero, *INT8)


def floats(x: torch.Tensor, scale: float = 0.05, zero: int = 0) -> torch.Tensor:
    """Dequantise int8."""
    return Q.dequantize_per_tensor(x, scale, zero, *INT8)


def emulated(x: torch.Tensor, scale: float = 0.05, zero: int = 0) -> torch.Tensor:
    """Quantise to int8 and back."""
    return floats(quantized(x, scale, zero), scale, zero)


class Product(nn.Module):
    """A quantised product: what is read is quantised, its weight whole numbers, and what is made may be quantised."""

    def __init__(
        self,
        multiply: Callable[..., torch.Tensor],
        weight: Sequence[int],
        *,
        bias: bool = True,
        act: Callable[[torch.Tensor], torch.Tensor] | None = None,
        to: tuple[float, int] | None = (0.04, 5),
        given: tuple[float, int] = (0.03, -7),
        axis: int | None = 0,
        zeros: int = 0,
    ) -> None:
        super().__init__()
        numbers = torch.Generator().manual_seed(len(weight))
        self.multiply, self.act, self.to, self.given, self.axis = multiply, act, to, given, axis
        self.register_buffer("weight", torch.randint(-127, 128, tuple(weight), generator=numbers).to(torch.int8))
        steps = 1 if axis is None else weight[axis]
        self.register_buffer("scales", (torch.rand(steps, generator=numbers) + 0.2) * 0.01)
        self.register_buffer("zeros", torch.full((steps,), zeros))
        self.bias = nn.Parameter(torch.randn(weight[0], generator=numbers)) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = emulated(x, *self.given)
        if self.axis is None:
            weight = Q.dequantize_per_tensor(self.weight, 0.005, 0, *INT8)
        else:
            weight = Q.dequantize_per_channel(self.weight, self.scales, self.zeros, self.axis, *INT8)
        made = self.multiply(x, weight, self.bias)
        made = made if self.act is None else self.act(made)
        return made if self.to is None else emulated(made, *self.to)


def linear(columns: int, depth: int, **options: Any) -> Product:
    """A quantised linear layer."""
    return Product(functional.linear, (columns, depth), **options)


def convolution(weight: Sequence[int], options: Sequence[Any] = (), *, one_dim: bool = False, **more: Any) -> Product:
    """A quantised convolution; ``options`` are stride, padding, dilation and groups."""
    convolve = functional.conv1d if one_dim else functional.conv2d
    return Product(lambda x, w, b: convolve(x, w, b, *options), weight, **more)


class Network(nn.Module):
    """Every instruction of int8: convolutions of each kind, a residual, a table, a pool, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolution((8, 3, 3, 3), (2, 1), given=(0.03, -2), to=(0.05, -4))
        self.depth = convolution((8, 1, 3, 3), (1, 1, 1, 8), given=(0.05, 7), to=(0.04, -128), act=functional.relu)
        self.point = convolution((8, 8, 1, 1), given=(0.04, -128), to=(0.05, 7))
        self.head = linear(5, 8, given=(0.05, 0), to=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = emulated(functional.hardswish(self.stem(x)), 0.05, 7)
        x = emulated(functional.relu(x + self.point(self.depth(x))), 0.06, -128)
        x = emulated(functional.max_pool2d(x, 2), 0.06, -128)
        return self.head(x.mean((2, 3)))


class Gated(nn.Module):
    """Means between products of int8: a gate of the channels, and of all places before the classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = convolution((16, 3, 3, 3), (2, 1), given=(0.03, -2), to=(0.05, -128), act=functional.relu)
        self.narrow = convolution((8, 16, 1, 1), given=(0.03, -128), to=(0.02, -128), act=functional.relu)
        self.wide = convolution((16, 8, 1, 1), given=(0.02, -128), to=(0.05, 3))
        self.head = linear(5, 16, given=(0.02, -100), to=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        gate = functional.hardsigmoid(self.wide(self.narrow(x.mean((2, 3), keepdim=True))))
        x = emulated(x * emulated(gate, 1 / 255, -128), 0.05, -128)
        return self.head(x.mean((2, 3)))


def gated() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Give it, and an input."""
    return Gated(), (torch.randn(1, 3, 9, 11, generator=torch.Generator().manual_seed(0)),)


def network() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Give it, and an input."""
    return Network(), (torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(0)),)
